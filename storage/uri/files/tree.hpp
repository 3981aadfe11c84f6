// A directory and everything below it, opened by descriptors: no link is followed, even if names are exchanged
// meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// The most levels of a walk. Each level holds a descriptor open, and users may nest directories without bound.
inline constexpr int levels_most = 128;

// Returns at most `most` of the names, sorted.
Result<std::vector<std::string>> names_in(const Descriptor& directory, std::size_t most = SIZE_MAX);

// Returns the regular files below `directory`, as `prefix` + their path in it. Links and rtrain's unfinished files are
// left out.
Status add_files(const Descriptor& directory, const std::string& prefix, std::vector<StoreEntry>& entries);

// Returns the entries below `directory` like add_files, and also the links, which are not followed.
struct TreeEntry {
    std::string path;
    std::int64_t bytes = 0;
    bool link = false;
};
Result<std::vector<TreeEntry>> entries_below(const Descriptor& directory);

// Returns the disk space that the files and directories below `directory` take, in bytes: their blocks, not their
// sizes. Links are not followed. Directories that this thread has no right to list are left out.
std::int64_t bytes_below(const std::string& directory);

// Opens the target of the link `path` beneath `top`. If the target lies outside of `top`, returns `unauthorised` with
// the target. An absolute target that begins with `top_path`, the path of `top`, lies inside. Each part is opened in
// turn, so an exchange of a part at the same moment leads nowhere else. Other Errors contain only the cause: the caller
// adds the link's name.
Result<Descriptor> open_within(const Descriptor& top, const std::string& top_path, const std::string& path, int flags);

// The rights with which root removes another user's directory: only those that the thread has (`worn`), or first the
// rights of the directory's owner.
enum class Rights { worn, owners_first };

// Removes the file, the link itself, or the directory with everything below it, at any depth. Succeeds if it is absent.
// Continues after names that cannot be removed, and returns the first error at the end.
Status remove_all(const Place& place, Rights rights = Rights::worn);
// true if there is nothing at `path`; also if a part that should be a directory is a file
bool is_absent(const Descriptor& top, const std::string& path);
Status remove_all_beneath(const std::string& top, const std::string& path);
Status remove_all_beneath(const Descriptor& top, const std::string& path);

}  // namespace rtrain::storage

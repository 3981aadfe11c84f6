// A directory and what lies below it, by descriptors: no link is followed, also when names are exchanged meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

inline constexpr int levels_most = 128;  // of a walk: each holds a descriptor open, and users may nest without end

// Returns at most `most` of the names, sorted.
Result<std::vector<std::string>> names_in(const Descriptor& directory, std::size_t most = SIZE_MAX);

// Regular files below `directory`, as `prefix` + their path in it. Links, and what rtrain writes aside, are left out.
Status add_files(const Descriptor& directory, const std::string& prefix, std::vector<StoreEntry>& entries);

// The same with links, which are named and not followed.
struct TreeEntry {
    std::string path;
    std::int64_t bytes = 0;
    bool link = false;
};
Result<std::vector<TreeEntry>> entries_below(const Descriptor& directory);

// Returns the bytes on disk, however deep; links are not followed. What this thread may not list is left out.
std::int64_t bytes_below(const std::string& directory);

// Opens the target of the link `path` beneath `top`. A target that does not lie beneath `top` is unauthorised, by name;
// an absolute target that begins with `top_path`, the place of `top`, lies within. Each part is walked, so no exchange
// leads out. Other errors give the reason alone: the caller names the link.
Result<Descriptor> open_within(const Descriptor& top, const std::string& top_path, const std::string& path, int flags);

// Whose rights remove a directory of another user that root meets: this thread's alone, or first that user's own.
enum class Rights { worn, owners_first };

// The file, the link itself, or the directory with all below it, however deep. Absent is fine. What cannot be removed
// does not keep the rest: the first error is returned at the end.
Status remove_all(const Place& place, Rights rights = Rights::worn);
bool is_absent(const Descriptor& top, const std::string& path);  // also since what should be a directory is a file
Status remove_all_beneath(const std::string& top, const std::string& path);

}  // namespace rtrain::storage

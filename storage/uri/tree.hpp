// A directory and what lies below it, by descriptors: no link is followed, also when names are exchanged meanwhile.
#pragma once

#include <string>
#include <vector>

#include "storage/uri/beneath.hpp"
#include "storage/uri/store.hpp"

namespace rtrain::storage {

inline constexpr int levels_most = 128;  // each holds a descriptor open, and who writes below may nest without end

Result<std::vector<std::string>> names_in(const Descriptor& directory);

// Regular files below `directory`, as `prefix` + their path in it. Links, and what rtrain writes aside, are left out.
Status add_files(const Descriptor& directory, const std::string& prefix, std::vector<StoreEntry>& entries,
                 int level = 0);

// The file, the link itself, or the directory with all below it. Absent is fine.
Status remove_all(const Place& place, int level = 0);
bool is_absent(const Descriptor& top, const std::string& path);  // also since what should be a directory is a file
Status remove_all_beneath(const std::string& top, const std::string& path);

}  // namespace rtrain::storage

// Copies files as fast as the machine can: by reflink if the file system can, else with several threads, because one
// core fills new pages of the page cache more slowly than memory accepts them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/worker/staging.hpp"

namespace rtrain::worker {

struct FileToCopy {
    std::string from;
    std::string to;  // must not exist; its directory must
    mode_t mode = 0;
    std::int64_t bytes = 0;  // from stat; bytes that are appended later are left out
};

// Copies the files. Returns an empty fault if all files are complete. Removes nothing after a fault. A file that became
// shorter meanwhile is a fault.
StagingFault copy_files(const std::vector<FileToCopy>& files);

}  // namespace rtrain::worker

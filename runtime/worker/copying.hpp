// Copies files as fast as the machine can: by reflink where the file system can, else by several threads, since one
// core fills new pages of the page cache more slowly than memory takes them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/worker/staging.hpp"

namespace rtrain::worker {

struct FileToCopy {
    std::string from;
    std::string to;  // does not exist, its directory does
    mode_t mode = 0;
    std::int64_t bytes = 0;  // as found by stat; what is appended later is left out
};

// Copies the files. An empty fault: every file is there, whole. Nothing is removed on a fault. A file that became
// shorter meanwhile is one.
StagingFault copy_files(const std::vector<FileToCopy>& files);

}  // namespace rtrain::worker

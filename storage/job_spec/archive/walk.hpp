// Lists the files of a working directory that are packed. Used inside of storage/job_spec only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "storage/job_spec/job.hpp"

namespace rtrain::spec {

struct WalkEntry {
    std::string path;                                                    // path in the archive
    std::filesystem::file_type type = std::filesystem::file_type::none;  // a directory, a regular file or a link
    std::filesystem::path source;                                        // path on this machine
    std::string target;                                                  // for links
};

struct Walk {
    std::vector<WalkEntry> entries;  // sorted; a directory comes before its content
    std::vector<std::string> secrets;
    std::vector<std::string> left_out;  // "pipe is a FIFO"
};

Result<Walk> walk_directory(const std::string& directory, NamedBy named_by);

}  // namespace rtrain::spec

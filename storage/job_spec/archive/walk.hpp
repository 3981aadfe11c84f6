// Lists the files of a working directory that are packed. Used inside of storage/job_spec only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "storage/job_spec/job.hpp"

namespace rtrain::spec {

struct WalkEntry {
    std::string path;                                                    // path of the entry in the archive
    std::filesystem::file_type type = std::filesystem::file_type::none;  // a directory, a regular file or a link
    std::filesystem::path source;                                        // path of the entry on this machine
    std::string target;                                                  // target of a link
};

struct Walk {
    std::vector<WalkEntry> entries;  // sorted by path; a directory comes before its content
    std::vector<std::string> secrets;
    std::vector<std::string> left_out;  // entries that are left out, each with its reason: "pipe is a FIFO"
};

Result<Walk> walk_directory(const std::string& directory, NamedBy named_by);

}  // namespace rtrain::spec

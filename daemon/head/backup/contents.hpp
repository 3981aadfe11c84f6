// Lists the files below the head's directories that a backup contains.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::head {

struct Contents {
    // paths relative to the directory; the index of a log (`.times`) comes before the log
    std::vector<std::string> files;
    std::vector<std::string> odd;  // links, sockets and other files that a backup cannot hold
};
enum class RunLogs { with, without };

// Lists the files of the data directory. Leaves out the database, which is copied separately, files that a start makes
// anew, and the files of `cluster://`.
Result<Contents> contents_of_data(const std::string& data_dir, RunLogs logs);
// Lists the files of `cluster://`. Leaves out unfinished uploads.
Result<Contents> contents_of_storage(const std::string& storage_root);

}  // namespace rtrain::head

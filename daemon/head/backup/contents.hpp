// Lists the files below the head's directories that belong into a backup.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::head {

struct Contents {
    std::vector<std::string> files;  // relative paths; the `.times` of a log comes before the log
    std::vector<std::string> odd;    // links, sockets and other files that a backup cannot hold
};
enum class RunLogs { with, without };

// Lists the data directory without the database (which is copied separately), files that a start makes anew, and
// `cluster://` files.
Result<Contents> contents_of_data(const std::string& data_dir, RunLogs logs);
// Lists the files of `cluster://` without unfinished uploads.
Result<Contents> contents_of_storage(const std::string& storage_root);

}  // namespace rtrain::head

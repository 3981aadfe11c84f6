// Writes and reads files of the head's data directory, and defines paths that several parts use.
#pragma once

#include <string>

#include "base/result.hpp"
#include "daemon/head/base/options.hpp"
#include "scheduler/model/ids.hpp"

namespace rtrain::head {

// Writes atomically and durably, readable for the owner alone. `aside` is the temporary file, on the same disk;
// concurrent writers of a path use different ones.
Status write_private(const std::string& path, const std::string& bytes);
Status write_private(const std::string& path, const std::string& bytes, const std::string& aside);
Result<std::string> read_file(const std::string& path);

// path of a blob; with "": the directory of all blobs
std::string blob_path(const HeadOptions& options, const std::string& sha256);
std::string values_directory(const HeadOptions& options, RunId run);
void forget_values(const HeadOptions& options, RunId run);
std::string scratch_path(const HeadOptions& options);  // path of a new file under <data>/tmp; thread-safe

}  // namespace rtrain::head

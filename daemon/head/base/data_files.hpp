// Files of the head's data directory: how they are written and read, and where those lie that several parts use.
#pragma once

#include <string>

#include "base/result.hpp"
#include "daemon/head/base/options.hpp"
#include "scheduler/model/ids.hpp"

namespace rtrain::head {

// Whole or not at all, durable, readable by the owner alone. `aside`: written first, on the same disk; two that write
// the same path at a time have each its own.
Status write_private(const std::string& path, const std::string& bytes);
Status write_private(const std::string& path, const std::string& bytes, const std::string& aside);
Result<std::string> read_file(const std::string& path);

std::string blob_path(const HeadOptions& options, const std::string& sha256);  // with "": the directory of all
std::string values_directory(const HeadOptions& options, RunId run);
void forget_values(const HeadOptions& options, RunId run);
std::string scratch_path(const HeadOptions& options);  // a fresh name under <data>/tmp, safe from any thread

}  // namespace rtrain::head

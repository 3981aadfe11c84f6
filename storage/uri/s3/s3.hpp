// The Store of s3://bucket/prefix.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// `variables` returns the values of the environment (docs/troubleshooting.md lists them), or empty texts.
Result<std::unique_ptr<Store>> open_s3_store(const std::string& root,
                                             const std::function<std::string(const std::string& name)>& variables);

// Returns the server that this process's settings name, as "http://host:port"; empty for Amazon's.
std::string own_s3_endpoint();

}  // namespace rtrain::storage

// The Store of s3://bucket/prefix.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// Credentials and settings are those of this process (README.md lists them), or `variables` in their place.
Result<std::unique_ptr<Store>> open_s3_store(const std::string& root);
Result<std::unique_ptr<Store>> open_s3_store(const std::string& root,
                                             const std::function<std::string(const std::string& name)>& variables);

// Returns the server that this process's settings name, as "http://host:port"; empty for Amazon's.
std::string own_s3_endpoint();

// Ends the requests of a program that ends. From `when` on, the requests of all these stores fail, including those that
// wait for an answer, and none is repeated. nullopt: no such time.
void end_s3_requests_at(std::optional<std::chrono::steady_clock::time_point> when);

}  // namespace rtrain::storage

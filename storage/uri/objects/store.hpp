// The Store of a bucket at any kind of object store. Used inside of storage/uri, except for `end_bucket_requests_at`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "storage/uri/files/store.hpp"
#include "storage/uri/objects/protocol.hpp"

namespace rtrain::storage {

using OpenClient = std::function<Result<std::unique_ptr<objects::Client>>(const std::string& bucket)>;
// `root`: the storage path, for messages.
Result<std::unique_ptr<Store>> open_object_store(const std::string& root, const std::string& bucket_and_prefix,
                                                 const OpenClient& open, std::unique_ptr<objects::Protocol> protocol);

// Ends the requests of a program that ends. From `when` on, the requests of all these stores fail, including those that
// wait for an answer, and none is repeated. nullopt: no such time.
void end_bucket_requests_at(std::optional<std::chrono::steady_clock::time_point> when);

}  // namespace rtrain::storage

// The Store of s3://bucket/prefix.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "storage/uri/store.hpp"

namespace rtrain::storage {

// Credentials and settings are those of this process (README.md says which), or what `variables` says in their place.
Result<std::unique_ptr<Store>> open_s3_store(const std::string& root);
Result<std::unique_ptr<Store>> open_s3_store(const std::string& root,
                                             const std::function<std::string(const std::string& name)>& variables);

}  // namespace rtrain::storage

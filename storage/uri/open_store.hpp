// Opens whatever a storage path names.
#pragma once

#include <memory>
#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// file:///abs, /abs, s3://bucket/prefix. (cluster:// is made by the agent over the head's API; gs:// is refused.)
Result<std::unique_ptr<Store>> open_store(const std::string& root);

}  // namespace rtrain::storage

// Opens the store that a storage path names.
#pragma once

#include <memory>
#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// Accepts file:///abs, /abs and s3://bucket/prefix. The agent makes the store of cluster:// over the head's API. gs://
// is refused.
Result<std::unique_ptr<Store>> open_store(const std::string& root);

}  // namespace rtrain::storage

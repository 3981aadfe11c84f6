// Opens the store of a storage path, by the path's scheme.
#pragma once

#include <memory>
#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// Accepts file:///abs, /abs and s3://bucket/prefix. Refuses gs://. For cluster://, the agent makes a store that uses
// the head's API.
Result<std::unique_ptr<Store>> open_store(const std::string& root);

}  // namespace rtrain::storage

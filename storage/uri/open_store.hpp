// Opens the store of a storage path, by the path's scheme.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// Accepts file:///abs, /abs, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix and abfss://..., with the
// credentials of this process. The agent makes the store of cluster:// over the head's API.
Result<std::unique_ptr<Store>> open_store(const std::string& root);
// Opens a bucket with `variables` in place of the environment. Sends no request yet, except for a token.
Result<std::unique_ptr<Store>> open_bucket_store(const std::string& root,
                                                 const std::function<std::string(const std::string& name)>& variables);
// Returns the server of such buckets that this process's settings name, as "http://host:port"; empty: the provider's.
std::string own_endpoint(Scheme);

}  // namespace rtrain::storage

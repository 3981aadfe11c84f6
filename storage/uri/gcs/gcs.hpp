// The Store of gs://bucket/prefix, by the XML interface of Google Cloud Storage.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// `variables` returns the values of the environment (docs/troubleshooting.md lists them), or empty texts.
Result<std::unique_ptr<Store>> open_gcs_store(const std::string& root,
                                              const std::function<std::string(const std::string& name)>& variables);

// Returns the server that this process's settings name, as "http://host:port"; empty if they are unusable.
std::string own_gcs_endpoint();

// Returns the server from which the key of a service account takes its tokens; empty if it is one of Google's.
Result<std::string> foreign_token_server(const std::string& service_account_key);

}  // namespace rtrain::storage

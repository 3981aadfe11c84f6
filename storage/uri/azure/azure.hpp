// The Store of az://container/prefix and abfss://container@account.dfs.core.windows.net/prefix, by the Blob interface.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// `variables` returns the values of the environment (docs/object-stores.md lists them), or empty texts.
Result<std::unique_ptr<Store>> open_azure_store(const std::string& root,
                                                const std::function<std::string(const std::string& name)>& variables);

// Returns the server that this process's settings name, as "http://host:port"; empty: Azure's.
std::string own_azure_endpoint();

// Returns the server that a connection string names, as "http://host:port"; empty if it is one of Azure's.
Result<std::string> foreign_blob_server(const std::string& connection_string);

}  // namespace rtrain::storage

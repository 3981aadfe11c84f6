// The requests of a container in Azure Blob Storage, and their protocol. Used inside of storage/uri and by its tests
// only.
#pragma once

#include <memory>
#include <string>

#include "storage/uri/objects/protocol.hpp"

namespace rtrain::storage::azure {

// `container`: "container", or "container@account.dfs.core.windows.net". `scheme`: "az://", for messages.
Result<std::unique_ptr<objects::Client>> open_client(const std::string& scheme, const std::string& container,
                                                     const objects::Variables&);
std::unique_ptr<objects::Protocol> protocol();

}  // namespace rtrain::storage::azure

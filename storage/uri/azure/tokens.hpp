// Access tokens for Azure Storage: of a managed identity, of a service principal, and of a pod's workload identity.
// Used inside of storage/uri and by its tests only.
#pragma once

#include "storage/http/http.hpp"
#include "storage/uri/azure/settings.hpp"
#include "storage/uri/objects/tokens.hpp"

namespace rtrain::storage::azure {

// Requests one token. unreachable: another try may help. not_found: this machine has no identity.
Result<objects::Token> fetch_token(const Settings&, http::Connections&);

}  // namespace rtrain::storage::azure

// Who this head is: the cluster's authority on disk (0600), a fresh leaf for "rtrain-head" at each start.
#pragma once

#include <string>

#include "daemon/net/server.hpp"
#include "daemon/security/security.hpp"
#include "scheduler/model/result.hpp"

namespace rtrain::head {

struct Identity {
    security::KeyPair authority;
    security::KeyPair leaf;
    std::string ca_fingerprint;
    net::TlsIdentity tls() const;
};

// Makes the authority when there is none; a half-present one is an Error, never silently replaced.
Result<Identity> open_identity(const std::string& data_dir);

}  // namespace rtrain::head

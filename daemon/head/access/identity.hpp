// The identity of this head: the cluster's authority on disk (0600), and a new leaf certificate for "rtrain-head" at
// each start.
#pragma once

#include <string>

#include "base/result.hpp"
#include "daemon/net/server.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {

struct Identity {
    security::KeyPair authority;
    security::KeyPair leaf;
    std::string ca_fingerprint;
    net::TlsIdentity tls() const;
};

// How a start treats a data directory without an authority. A head with records refuses to start, since nodes and
// contexts trust the missing authority.
enum class MissingAuthority { is_made, is_refused };

// Opens the authority. Returns an Error, and replaces nothing, if only a part of it exists.
Result<Identity> open_identity(const std::string& data_dir, MissingAuthority missing = MissingAuthority::is_made);

}  // namespace rtrain::head

// Access tokens for Google Cloud Storage: of a service account's key, of a user's refresh token, and of the metadata
// server. Used inside of storage/uri and by its tests only.
#pragma once

#include "storage/http/http.hpp"
#include "storage/uri/gcs/settings.hpp"
#include "storage/uri/objects/tokens.hpp"

namespace rtrain::storage::gcs {

// Returns the signed assertion (RFC 7523) with which a service account requests a token.
Result<std::string> assertion_of(const Account&, std::int64_t unix_s);
// Requests one token. unreachable: another try may help. not_found: this machine has no metadata server.
Result<objects::Token> fetch_token(const Settings&, http::Connections&);

}  // namespace rtrain::storage::gcs

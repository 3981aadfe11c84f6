// Credentials that a machine lends to its programs: those of an ECS task or EKS pod, and of an EC2 instance's role.
// Used inside of storage/uri only.
#pragma once

#include "storage/http/http.hpp"
#include "storage/uri/s3/settings.hpp"

namespace rtrain::storage::s3 {

// not_found: this machine lends no credentials.
Result<Credentials> lent_credentials(const Variables&, http::Connections&);

}  // namespace rtrain::storage::s3

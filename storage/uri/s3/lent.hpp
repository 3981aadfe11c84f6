// Credentials that a machine lends to what runs on it: those of an ECS task or EKS pod, and of an EC2 instance's role.
// Inside of storage/uri only.
#pragma once

#include "storage/http/http.hpp"
#include "storage/uri/s3/settings.hpp"

namespace rtrain::storage::s3 {

// not_found: nobody lends any here.
Result<Credentials> lent_credentials(const Variables&, http::Connections&);

}  // namespace rtrain::storage::s3

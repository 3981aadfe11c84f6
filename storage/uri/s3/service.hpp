// The requests of an S3 bucket, signed with the credentials that the variables lead to. Used inside of storage/uri and
// by its tests only.
#pragma once

#include <memory>
#include <string>

#include "storage/uri/objects/client.hpp"

namespace rtrain::storage::s3 {

Result<std::unique_ptr<objects::Client>> open_client(const std::string& bucket, const objects::Variables&);

}  // namespace rtrain::storage::s3

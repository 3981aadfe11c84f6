// Files to and from a bucket, large ones in parts, a few at a time, with the memory of a few buffers.
// Inside of storage/uri only.
#pragma once

#include <string>

#include "storage/uri/files/store.hpp"
#include "storage/uri/s3/client.hpp"

namespace rtrain::storage::s3 {

Status upload(Client&, const std::string& local, const std::string& key, const Progress&);
Status download(Client&, const std::string& key, const std::string& local, const Progress&);  // aside, then renamed
Status abort_uploads(Client&, const std::string& key_prefix);  // those that a writer which is gone left unfinished

}  // namespace rtrain::storage::s3

// Copies files to and from a bucket: large ones in parts, a few at a time, with a few buffers of memory. Used inside of
// storage/uri only.
#pragma once

#include <string>

#include "storage/uri/files/store.hpp"
#include "storage/uri/s3/client.hpp"

namespace rtrain::storage::s3 {

Status upload(Client&, const std::string& local, const std::string& key, const Progress&);
// downloads to a file beside the target, then renames it
Status download(Client&, const std::string& key, const std::string& local, const Progress&);
// aborts the uploads that an ended writer left unfinished
Status abort_uploads(Client&, const std::string& key_prefix);

}  // namespace rtrain::storage::s3

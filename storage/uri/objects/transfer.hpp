// Copies files to and from a bucket: large ones in parts, a few at a time, with a few buffers of memory. Used inside of
// storage/uri only.
#pragma once

#include <string>

#include "storage/uri/files/store.hpp"
#include "storage/uri/objects/protocol.hpp"

namespace rtrain::storage::objects {

Status upload(Client&, Protocol&, const std::string& local, const std::string& key, const Progress&);
// downloads to a file beside the target, then renames it
Status download(Client&, const std::string& key, const std::string& local, const Progress&);

}  // namespace rtrain::storage::objects

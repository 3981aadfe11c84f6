// Paths below a storage path. Used inside of storage/uri only.
#pragma once

#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// requires a relative, '/'-separated path without empty, '.' or '..' parts and without reserved names
Status check_path(const std::string& path);

}  // namespace rtrain::storage

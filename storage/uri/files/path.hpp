// Paths below a storage path. Inside of storage/uri only.
#pragma once

#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

Status check_path(const std::string& path);  // relative, '/'-separated, no empty, '.' or '..' part, no name of ours

}  // namespace rtrain::storage

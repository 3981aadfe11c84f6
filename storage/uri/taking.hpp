// Giving a file to a store without copying it.
#pragma once

#include <string>

#include "storage/uri/store.hpp"

namespace rtrain::storage {

// Renames `local`, a plain file with this one name, to `path` of the store. False: nothing was done, since it is no
// such file, or lies elsewhere than the store; it must be copied. A link in its place is never followed.
Result<bool> take_file(Store& store, const std::string& local, const std::string& path, const Progress& progress = {});

}  // namespace rtrain::storage

// Moves files between a local store and other places: renames them, or opens them with the rights of a user.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// Renames the plain file `local`, which must have exactly one name, to `path` of the store. Returns false without a
// change if it is no such file, or lies on another file system: then it must be copied. A link in its place is never
// followed.
Result<bool> take_file(Store& store, const std::string& local, const std::string& path, const Progress& progress = {});

// Copies an opened file to `path` of a local store. `name`: the file's name for messages.
Status put_opened(Store& store, const Descriptor& file, const std::string& name, const std::string& path,
                  const Progress& progress);
// Copies an opened file to the local path `local`, in an existing directory, without syncing: for files that are
// useless after a crash of the machine. The copy has `bytes` bytes, even if the file grows meanwhile.
Status copy_opened(const Descriptor& file, const std::string& name, const std::string& local, std::int64_t bytes);
// Copies an opened file to the local path `local`.
Status keep_opened(const Descriptor& file, const std::string& name, const std::string& local, const Progress& progress);

}  // namespace rtrain::storage

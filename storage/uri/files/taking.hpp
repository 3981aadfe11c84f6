// Files between a local store and elsewhere: given without a copy, or opened by who may, and written by who may.
#pragma once

#include <string>

#include "storage/base/descriptor.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// Renames `local`, a plain file with this one name, to `path` of the store. False: nothing was done, since it is no
// such file, or lies elsewhere than the store; it must be copied. A link in its place is never followed.
Result<bool> take_file(Store& store, const std::string& local, const std::string& path, const Progress& progress = {});

// Copies an opened file to `path` of a local store; `name` is what messages call it.
Status put_opened(Store& store, const Descriptor& file, const std::string& name, const std::string& path,
                  const Progress& progress);
// Copies an opened file to the local path `local`, in a directory that is there, without bringing it to the disk: for
// files that nobody wants after a crash of the machine. The copy has `bytes` bytes, also of a file that somebody
// writes.
Status copy_opened(const Descriptor& file, const std::string& name, const std::string& local, std::int64_t bytes);
// Copies an opened file to the local path `local`.
Status keep_opened(const Descriptor& file, const std::string& name, const std::string& local, const Progress& progress);

}  // namespace rtrain::storage

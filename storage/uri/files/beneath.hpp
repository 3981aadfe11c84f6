// Opens files relative to the descriptor of a directory, so that a path never leads out of it, even if another process
// renames parts of it at the same moment. No part of a path may be a link, except for open_in_root.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// Opens the directory `directory` itself. Links on the way to it are followed, but not the links of /proc. Such links
// lead into what another process has mounted or holds open, and a job can mount anything over its own directories.
// Errors: as for open_beneath.
Result<Descriptor> open_top(const std::string& directory);

// Like open_top, but follows no link at all.
Result<Descriptor> open_real_top(const std::string& directory);
// Returns the real path of the directory: all links on the way to it are followed, with this thread's rights. Parts
// that do not exist yet are appended unchanged. Fails if a part changes meanwhile, or cannot be reached.
Result<std::string> real_directory(const std::string& directory);

// Opens `path` beneath `top` with `flags` of open(2) (O_NOFOLLOW and O_CLOEXEC are added); `mode` is that of a file
// that O_CREAT makes. A path is relative and '/'-separated, without empty, "." or ".." parts; "" is `top` itself.
// Errors: invalid (the path), unauthorised (a link, or no permission), not_found, full, io.
Result<Descriptor> open_beneath(const Descriptor& top, const std::string& path, int flags, unsigned int mode = 0);

// Opens the directory `path` beneath `top`. Makes its missing parts, also again if another process removes them while
// they are empty. Each new directory is on the disk at return. `mode` is reduced by the umask.
Result<Descriptor> make_beneath(const Descriptor& top, const std::string& path, unsigned int mode = 0777);

// Opens `path`, relative as above, like a process with `root` as its root directory: links are followed, and an
// absolute link, or "..", leads no further up than `root`. A kernel without openat2 follows no links. Makes no file.
// Errors: as for open_beneath.
Result<Descriptor> open_in_root(const Descriptor& root, const std::string& path, int flags);

// The parent directory of `path` beneath `top`, and the last part of the path, for openat, renameat and unlinkat.
struct Place {
    Descriptor directory;
    std::string name;
};
Result<Place> place_beneath(const Descriptor& top, const std::string& path);

// Returns the whole content of an opened file. `path`: the file's name for messages. Errors: damaged (more than `most`
// bytes), io.
Result<std::string> read_opened(const Descriptor& file, const std::string& path, std::int64_t most = whole_most);

// Returns the present name of `path` beneath a directory, for messages only.
std::string shown(const Descriptor& directory, const std::string& path);

// The method by which a path is opened: by openat2 (`kernel`), or part by part. `each_part` is for kernels without
// openat2, and for containers that forbid it.
enum class Walk { kernel, each_part };
Result<Descriptor> open_top_by(Walk walk, const std::string& directory);
Result<Descriptor> open_beneath_by(Walk walk, const Descriptor& top, const std::string& path, int flags,
                                   unsigned int mode);
Result<Descriptor> open_in_root_by(Walk walk, const Descriptor& root, const std::string& path, int flags);

}  // namespace rtrain::storage

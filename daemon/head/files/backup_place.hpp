// Where a head that a service manager confines can put a file that people find again.
#pragma once

#include <string>

#include "base/result.hpp"

namespace rtrain::head {

// Fails (conflict) where the head sees another file system at `path` than people do, as its service has a /tmp of its
// own, and where that is read-only for it. `mounts`: the text of /proc/self/mountinfo.
Status check_backup_place(const std::string& path, const std::string& mounts, const std::string& data_dir);

}  // namespace rtrain::head

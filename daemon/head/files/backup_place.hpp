// Checks that a head confined by a service manager can write a file to a place where people find it.
#pragma once

#include <string>

#include "base/result.hpp"

namespace rtrain::head {

// Fails (conflict) if the head sees another file system at `path` than people do, for example because its service has a
// private /tmp. Also fails if the place is read-only for the head. `mounts`: the text of /proc/self/mountinfo.
Status check_backup_place(const std::string& path, const std::string& mounts, const std::string& data_dir);

}  // namespace rtrain::head

// The disk of the data directory: the bytes that stay free on it, whether new runs have room, and the bound on a user's
// logs. Longer logs lose their middle (base/log_cuts.hpp).
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::agent {

struct DiskRoom {
    std::uint64_t size = 0, free = 0;  // in bytes; size 0: the file system reports no size
};
DiskRoom room_at(const std::string& directory);
// Returns the number of bytes to keep free: `asked`, or less on a small disk.
std::uint64_t reserve_of(const DiskRoom& disk, std::int64_t asked);
// Returns why the disk has no room for new runs; empty if it has. `before`: the last result.
std::string full_disk(const std::string& directory, const DiskRoom& disk, std::uint64_t reserve,
                      const std::string& before);
// Returns the bytes of logs that each user may have if all users together have `held`.
std::uint64_t logs_of_user(const DiskRoom& disk, std::uint64_t held, std::uint64_t reserve);

}  // namespace rtrain::agent

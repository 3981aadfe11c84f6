// The disk of the data directory: what stays free on it, when it is full for new runs, and how many bytes of logs a
// user may have there. Logs that are longer lose their middle (base/log_cuts.hpp).
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::agent {

struct DiskRoom {
    std::uint64_t size = 0, free = 0;  // bytes; size 0: the file system reports no size
};
DiskRoom room_at(const std::string& directory);
// The bytes that stay free: `asked`, or less on a small disk.
std::uint64_t reserve_of(const DiskRoom& disk, std::int64_t asked);
// Why the disk has no room for new runs; empty: it has some. `before`: what was said last.
std::string full_disk(const std::string& directory, const DiskRoom& disk, std::uint64_t reserve,
                      const std::string& before);
// Bytes of logs that each user may have, where all users together have `held`.
std::uint64_t logs_of_user(const DiskRoom& disk, std::uint64_t held, std::uint64_t reserve);

}  // namespace rtrain::agent

// See disk_room.hpp.
#include "daemon/agent/disk/disk_room.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <limits>

#include "daemon/agent/base/limits.hpp"

namespace rtrain::agent {

DiskRoom room_at(const std::string& directory) {
    struct statvfs disk{};
    if (::statvfs(directory.c_str(), &disk) != 0) return {};
    return {.size = static_cast<std::uint64_t>(disk.f_blocks) * disk.f_frsize,
            .free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize};
}

std::uint64_t reserve_of(const DiskRoom& disk, std::int64_t asked) {
    return std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(asked, 0)),
                    disk.size / limits::disk_reserve_part);
}

std::string full_disk(const std::string& directory, const DiskRoom& disk, std::uint64_t reserve,
                      const std::string& before) {
    const std::uint64_t enough = before.empty() ? reserve : reserve + reserve / limits::room_again_part;
    if (disk.size == 0 || disk.free >= enough) return "";
    if (!before.empty()) return before;
    return "the disk of " + directory + " is nearly full: " + std::to_string(disk.free >> 20) + " MiB are free, and " +
           std::to_string(reserve >> 20) +
           " MiB are the reserve (node join --disk-reserve); new runs start here once there is room";
}

std::uint64_t logs_of_user(const DiskRoom& disk, std::uint64_t held, std::uint64_t reserve) {
    if (disk.size == 0) return std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t room = disk.free + held - std::min(disk.free + held, reserve);
    const std::uint64_t most = disk.size / limits::logs_most_part, least = disk.size / limits::logs_least_part;
    const std::uint64_t share = disk.free < reserve ? least : std::min(most, room / limits::logs_of_room_part);
    return std::max({share, least, limits::logs_of_user_least});
}

}  // namespace rtrain::agent

// Every bound on one user's share of a node's resources, each with its reason. docs/security.md lists them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rtrain::agent::limits {

// ---- the disk of the data directory -------------------------------------------------------------------------------
// Bytes that stay free: the agent's own state and other users' runs need them. `node join --disk-reserve` sets another
// amount. The reserve is at most a tenth of the disk. The node is drained below it, until a quarter more is free.
inline constexpr std::int64_t disk_reserve = std::int64_t{512} << 20;
inline constexpr std::uint64_t disk_reserve_part = 10, room_again_part = 4;

// Bounds on the logs of one user: an eighth of the disk, and a quarter of the space that would be free above the
// reserve without any logs. So one user who fills the disk with logs does not come near the reserve. Every user may
// have a 64th of the disk, also below the reserve, whoever else fills the disk.
inline constexpr std::uint64_t logs_most_part = 8, logs_of_room_part = 4, logs_least_part = 64;
inline constexpr std::uint64_t logs_of_user_least = 1 << 20;
// Bounds on the kept setups of one Unix user: a quarter of the disk, a sixteenth of it below the reserve. The least
// recently used setups are removed.
inline constexpr std::uint64_t setups_part = 4, setups_part_when_full = 16;
// A log that is cut keeps three quarters of its bound, so that it is not cut again with each line.
inline constexpr std::uint64_t cut_keeps_of_4 = 3;

// ---- processes ----------------------------------------------------------------------------------------------------
// Bound on setups that run at once, each of another user. More would take the processors from the workers. A setup that
// has run for `setup_share_ms` no longer counts here if another user waits, and continues. At `setups_most` the oldest
// one is ended.
inline constexpr std::size_t setups_at_once = 8, setups_most = 32;
inline constexpr std::int64_t setup_share_ms = 10 * 60 * 1'000;
// Bound on the processes and threads of an attempt on a node, with its setup, if its workers have a cgroup. It is far
// above the number of eight ranks with loaders, and far below the kernel's limit.
inline constexpr std::size_t tasks_of_attempt = 16'384;
// Templates of warm workers of one user, with their standbys: three quarters of those that a node has, so that other
// users' first ones find a place.
inline constexpr std::size_t templates_of_user = 6;
// Bytes of one template, until its size is measured.
inline constexpr std::int64_t template_memory = std::int64_t{512} << 20;
// Bytes of all templates of a node, without --warm-memory. With --warm: 2 GiB. By default: a tenth of the node's
// memory, at most 8 GiB, and no template is made that would leave less than another tenth available.
inline constexpr std::int64_t templates_memory = std::int64_t{2} << 30;
inline constexpr std::int64_t templates_part = 10, templates_memory_most = std::int64_t{8} << 30;

}  // namespace rtrain::agent::limits

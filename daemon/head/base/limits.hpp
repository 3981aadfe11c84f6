// Every bound of what users can make the head keep, each with its reason. `docs/security.md` has them as a table.
// `scheduler/model/limits.hpp` has the core's, `storage/job_spec/limits.hpp` those of a job's text.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rtrain::head::limits {

inline constexpr std::int64_t MiB = 1 << 20, GiB = 1 << 30;

// ---- all that is kept for one user; an admin sets others: `rtrain access quota`
// The records of all runs in memory, also of those that have ended: some four million workers.
inline constexpr std::int64_t user_memory = 512 * MiB;
// The most bytes of one user's rows in the state database, which a start reads completely. They are some 50 million
// small reports.
inline constexpr std::int64_t user_database = 4 * GiB;
// The most runs of one user that have not ended. Lists, metrics and the scheduler look at each of them.
inline constexpr std::size_t user_live_runs = 20'000;
// Streams that are open: followed events, logs and metrics. Each is a connection, of which a head with 8,192 gives one
// user 512; the others stay for the user's requests. `rtrain access quota USER --streams N` sets another limit.
inline constexpr std::size_t user_streams = 256;
// The most bytes of one user's files: logs, values, code archives and secrets.
inline constexpr std::int64_t user_files = 64 * GiB;
// The part of the storage root's disk that one user's files below cluster:// may take, in quarters.
inline constexpr std::int64_t user_quarters_of_storage = 3;
// On a small disk, database and files of one user take at most this part of the disk each, so that one user alone
// never reaches the reserve.
inline constexpr std::int64_t user_part_of_disk = 4;

// ---- the values that a run's workers and driver leave for each other
// the most bytes of one value, since a value is read and sent as a whole
inline constexpr std::size_t value_bytes = 4 * MiB;
inline constexpr std::size_t values_of_run = 1'000;  // the most values of a run; values of checkpoints are not counted

// ---- the disk of the data directory
// Free bytes that users' data leave, for changes that always go through; of a small disk this part.
inline constexpr std::int64_t disk_reserve = 256 * MiB, disk_reserve_part = 8;
// The size of the reserve file, in bytes, and the number of bytes that are given up at a time. It is for a disk that
// becomes full nevertheless, for example by other programs. A small change writes some 100 KiB: its pages in SQLite's
// log, which cannot be emptied while the database's file cannot grow.
inline constexpr std::int64_t reserve_file = 32 * MiB, reserve_file_part = 16;
inline constexpr std::int64_t disk_look_ms = 1'000;  // ms between two measurements of the disk
// The bytes that a request such as resize counts. Such a request is refused beyond the user's limit. Stop and remove
// are never refused.
inline constexpr std::int64_t request_bytes = 4 << 10;

}  // namespace rtrain::head::limits

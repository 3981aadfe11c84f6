// How much of a worker's words an agent hands on. A message between agents, or to the head, has at most 16 MiB: one
// that is longer would end the node's connection, again and again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rtrain::worker {

inline constexpr std::size_t metrics_bytes_max = std::size_t{1} << 20;  // of one rank's report
// The metrics of all ranks in one report. Text in JSON may take twice its bytes.
inline constexpr std::size_t all_ranks_metrics_bytes_max = std::size_t{6} << 20;
inline constexpr std::size_t cause_bytes_max = std::size_t{256} << 10;         // of `fail`; the rest is cut off
inline constexpr std::size_t staging_error_bytes_max = std::size_t{16} << 10;  // the same
inline constexpr std::size_t path_bytes_max = 4'096, name_bytes_max = 255;
// The largest index of a report or a broadcast. Every reader of JSON knows it exactly, and no database takes it for a
// negative number.
inline constexpr std::uint64_t index_max = std::uint64_t{1} << 53;

}  // namespace rtrain::worker

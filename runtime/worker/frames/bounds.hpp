// Bounds for data of a worker that an agent passes on. A message between agents, or to the head, has at most 16 MiB. A
// longer one would end the node's connection again and again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rtrain::worker {

inline constexpr std::size_t metrics_bytes_max = std::size_t{1} << 20;  // per report of one rank
// The metrics of all ranks in one report. As text in JSON they may take twice the bytes.
inline constexpr std::size_t all_ranks_metrics_bytes_max = std::size_t{6} << 20;
inline constexpr std::size_t cause_bytes_max = std::size_t{256} << 10;         // bytes of `fail`; the rest is cut off
inline constexpr std::size_t staging_error_bytes_max = std::size_t{16} << 10;  // bytes; the rest is cut off
inline constexpr std::size_t path_bytes_max = 4'096, name_bytes_max = 255;
// The largest index of a report or a broadcast. All JSON readers represent it exactly, and no database reads it as a
// negative number.
inline constexpr std::uint64_t index_max = std::uint64_t{1} << 53;

}  // namespace rtrain::worker

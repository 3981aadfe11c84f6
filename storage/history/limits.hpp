// The bounds of the history that charts are drawn from, each with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "storage/history/levels.hpp"

namespace rtrain::history {

// ---- runs: numbers of reports -------------------------------------------------------------------------------------
// The keys of a run. A run that reports more has a key for each layer or file, which nobody looks at one by one.
inline constexpr std::size_t keys_most = 100;
inline constexpr std::size_t key_bytes_most = 200;  // a longer name would not fit beside an axis of a chart
// Each level has a sixteenth of the buckets of the finer one, so that all levels together are about 1/15 larger than
// the finest. A chunk of 512 buckets compresses to a few pages of the database; larger chunks would be rewritten too
// often.
inline constexpr Shape run_shape{.widths = {16, 256, 4'096}, .chunk_buckets = 512};
// The most chunks that are kept of each level of a run. In the finest level they are eight million reports. Older parts
// are drawn from the next level.
inline constexpr std::uint64_t run_chunks_most = 1'024;

// ---- nodes and ranks: CPU, memory, GPUs, network, disks -----------------------------------------------------------
// Buckets of seconds. A day has 5,400 of the finest: more than a screen has columns, so that two levels do.
inline constexpr Shape usage_shape{.widths = {16, 256, 0}, .chunk_buckets = 32};
inline constexpr std::int64_t usage_kept_s = 24 * 3'600;
// Each node and each rank needs some 300 KB per day. With more than some 3,000 of them the oldest hours are removed
// earlier.
inline constexpr std::int64_t usage_bytes_most = 1LL << 30;
// The most nodes and ranks that are kept at a time, with 10 KB of memory each. Further ones are only visible in
// /metrics.
inline constexpr std::size_t usage_subjects_most = 8'192;
inline constexpr std::size_t gpus_most = 16;  // the most GPUs of a node that have a key in the charts

// ---- the cluster: one subject, with GPUs, CPUs, the queue and the head's own health
// ---------------------------------- Buckets of seconds, as of nodes, and a third level for months.
inline constexpr Shape cluster_shape{.widths = {16, 256, 4'096}, .chunk_buckets = 512};
// The most chunks that are kept of each level: a week in the level of 16 s, four months in that of 256 s, five years in
// that of 4,096 s. With a dozen keys they take some 20 MB before compression.
inline constexpr std::uint64_t cluster_chunks_most = 74;

// ---- questions ----------------------------------------------------------------------------------------------------
// a screen has at most 2,000 columns, so a chart has at most that many points
inline constexpr std::size_t points_default = 500, points_most = 2'000;
// The most buckets that are read per point. A level that is one step finer costs sixteen times as much.
inline constexpr std::uint64_t buckets_read_per_point = 16;
// The most reports that are read directly, instead of a level, per point and per answer: 40 ms of decoding.
inline constexpr std::uint64_t reports_read_per_point = 8, reports_read_most = 4'096;

// ---- memory -------------------------------------------------------------------------------------------------------
// The memory of all levels of runs. Beyond it the longest unused levels are written and leave; they come back from
// disk.
inline constexpr std::size_t memory_most = 64 << 20;

}  // namespace rtrain::history

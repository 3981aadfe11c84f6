// Every bound of the history that charts are drawn from, with a line of reason each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "storage/history/levels.hpp"

namespace rtrain::history {

// ---- runs: numbers of reports -------------------------------------------------------------------------------------
// The keys of a run. A run that reports more has a key for each layer or file, which nobody looks at one by one.
inline constexpr std::size_t keys_most = 100;
inline constexpr std::size_t key_bytes_most = 200;  // a longer name is no axis of a chart
// Each level has a sixteenth of the buckets of the one below, so that all of them are about 1/15 more than the finest.
// A chunk of 512 buckets compresses to some pages of the database; larger ones would be written again too often.
inline constexpr Shape run_shape{.widths = {16, 256, 4'096}, .chunk_buckets = 512};
// Chunks of a run's level that stay: eight million reports of the finest one. Beyond them the next level answers.
inline constexpr std::uint64_t run_chunks_most = 1'024;

// ---- nodes and ranks: CPU, memory, GPUs, network, disks -----------------------------------------------------------
// Buckets of seconds. A day has 5,400 of the finest: more than a screen has columns, so that two levels do.
inline constexpr Shape usage_shape{.widths = {16, 256, 0}, .chunk_buckets = 32};
inline constexpr std::int64_t usage_kept_s = 24 * 3'600;
// Each node and each rank has some 300 KB a day: beyond some 3,000 of them the oldest hours go sooner.
inline constexpr std::int64_t usage_bytes_most = 1LL << 30;
// Nodes and ranks that are kept at a time: each has 10 KB in memory. Further ones are in /metrics alone.
inline constexpr std::size_t usage_subjects_most = 8'192;
inline constexpr std::size_t gpus_most = 16;  // of a node, as keys

// ---- questions ----------------------------------------------------------------------------------------------------
inline constexpr std::size_t points_default = 500, points_most = 2'000;  // a screen has 2,000 columns or less
// Buckets that may be read for a point: one level finer costs sixteen times as much.
inline constexpr std::uint64_t buckets_read_per_point = 16;
// Reports that are read as they came instead of a level, for each point and for one answer: 40 ms of decoding.
inline constexpr std::uint64_t reports_read_per_point = 8, reports_read_most = 4'096;

// ---- memory -------------------------------------------------------------------------------------------------------
// The memory of all levels of runs. Beyond it the longest unused levels are written and leave; they come back from
// disk.
inline constexpr std::size_t memory_most = 64 << 20;

}  // namespace rtrain::history

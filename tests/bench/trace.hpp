// A job trace, read from a CSV file or drawn from a seed with a profile of sizes and durations.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace rtrain::bench {

inline constexpr std::uint32_t gpus_per_node = 8;

struct TraceJob {
    std::int64_t submit_s = 0;
    std::uint32_t workers = 1;
    std::uint32_t gpus = 1;  // per worker
    std::int64_t run_s = 60;
    std::string queue = "default";
    std::int32_t priority = 50;
    std::int64_t limit_s = 0;  // limits.wall_time; 0: none is given
};
using Trace = std::vector<TraceJob>;  // sorted by submit time

Trace read_trace(std::istream& in, const std::string& name);  // ends the program with the line of the error
void write_trace(std::ostream& out, const Trace& trace);

// Returns the share of a queue of the drawn traces' teams; 1 for any other queue.
std::int64_t share_of(const std::string& queue);

struct Profile {
    std::string name = "mixed";  // mixed, small or large: sizes and durations; any other name ends the program
    std::size_t jobs = 70'000;
    std::uint32_t nodes = 64;
    std::uint64_t seed = 1;
    double load = 0.95;  // mean fraction of the cluster's GPUs in use
};
Trace draw_trace(const Profile& profile);

}  // namespace rtrain::bench

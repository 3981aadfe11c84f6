// Finds the ranks that the others wait for. In synchronous training a slow rank is the one that waits least: the others
// wait for it in every collective and every report.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace rtrain {

struct SlowRanks {
    std::vector<std::uint32_t> ranks;  // ascending; at most half of all ranks
    double others_wait = 0;            // mean wait of the others, less that of the slow ranks; in the unit of `waits`
    double mean_wait = 0;  // the same difference as a mean over all ranks, which is the time that the run loses
};

// Returns the slow ranks. `waits`: how long each rank waited for others in the same time. Returns nullopt if no rank is
// slow: the waits differ by less than `least`, or more ranks wait little than much. In the second case long waits are
// the exception, and the other ranks are not slow.
std::optional<SlowRanks> slow_ranks(const std::vector<double>& waits, double least);

}  // namespace rtrain

// Which ranks the others wait for. In synchronous training a slow rank is the one that waits least: the others wait for
// it in every collective and every report.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace rtrain {

struct SlowRanks {
    std::vector<std::uint32_t> ranks;  // ascending; no more than half of all
    double others_wait = 0;            // mean of the others, more than they do; in the unit of `waits`
    double mean_wait = 0;              // the same over all ranks: what the run loses
};

// Returns the slow ones by how long each rank waited for others in the same time. nullopt: no rank is slow. That is so
// where the waits differ by less than `least`, and where more ranks wait little than much: who waits long is then the
// exception, and the others are not slow.
std::optional<SlowRanks> slow_ranks(const std::vector<double>& waits, double least);

}  // namespace rtrain

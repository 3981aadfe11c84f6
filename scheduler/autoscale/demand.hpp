// The sum of the waiting runs' demands by shape: for people, and for commands that provide machines.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain {

struct Demand {  // Equal bundles of waiting runs.
    Resources demand;
    LabelSelector selector;
    Strategy strategy = Strategy::pack;
    std::uint64_t runs = 0, bundles = 0;  // number of waiting runs, and of bundles in the smallest gang of each run
    std::uint64_t largest = 0;            // the most bundles of this kind in one run
    bool operator==(const Demand&) const = default;
};
// Returns the demands, those with the most bundles first. Runs that wait for other runs, or for their array's limit,
// are left out.
std::vector<Demand> waiting_demand(const Cluster& cluster);

}  // namespace rtrain

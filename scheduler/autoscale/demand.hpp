// The resources that the waiting runs ask for together, by shape: for people, and for whoever provides machines.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain {

struct Demand {  // bundles that are alike, of runs that wait
    Resources demand;
    LabelSelector selector;
    Strategy strategy = Strategy::pack;
    std::uint64_t runs = 0, bundles = 0;  // of the smallest gang that each run may have
    std::uint64_t largest = 0;            // bundles of one run
    bool operator==(const Demand&) const = default;
};
// Shapes with the most bundles come first. Runs that wait for others, or for their array's limit, are not among them.
std::vector<Demand> waiting_demand(const Cluster& cluster);

}  // namespace rtrain

// Adds up the resources of all nodes that are not lost, for the page and the command line.
#pragma once

#include "scheduler/index/cluster.hpp"

namespace rtrain::head {

struct ClusterTotals {
    Sums total, free;
    Amount gpus_total, gpus_free;
};

ClusterTotals totals_of(const Cluster& cluster);

}  // namespace rtrain::head

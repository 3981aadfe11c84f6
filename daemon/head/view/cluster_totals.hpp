// The sums of all nodes that are not lost: the page's and the command line's numbers of the cluster.
#pragma once

#include "scheduler/index/cluster.hpp"

namespace rtrain::head {

struct ClusterTotals {
    Sums total, free;
    Amount gpus_total, gpus_free;
};

ClusterTotals totals_of(const Cluster& cluster);

}  // namespace rtrain::head

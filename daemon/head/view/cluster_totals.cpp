// See cluster_totals.hpp.
#include "daemon/head/view/cluster_totals.hpp"

namespace rtrain::head {

ClusterTotals totals_of(const Cluster& cluster) {
    ClusterTotals sum;
    ClusterIndex scratch;
    for (const NodeView& view : in_step(cluster, scratch).nodes()) {
        if (view.state == NodeState::lost) continue;
        add(sum.total, view.total);
        add(sum.free, view.free);
        for (const Amount free_amount : view.gpus_free) sum.gpus_free = sum.gpus_free + free_amount;
        sum.gpus_total = sum.gpus_total + units(static_cast<std::int64_t>(view.gpus_free.size()));
    }
    return sum;
}

}  // namespace rtrain::head

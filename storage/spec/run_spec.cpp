// What the core needs to know of a job.

#include "storage/spec/job.hpp"

namespace rtrain::spec {

RunSpec run_spec(const Job& job) {
    RunSpec spec{.priority = job.priority,
                 .queue = job.queue,
                 .failure = job.failure,
                 .retention = job.retention,
                 .wait_for_nodes = job.wait_for_nodes,
                 .stop_grace = {job.stop_grace_ms},
                 .stop_at = job.stop};
    if (job.wall_time_ms) spec.wall_time_limit = Duration{*job.wall_time_ms};
    if (job.queue_time_ms) spec.queue_time_limit = Duration{*job.queue_time_ms};
    spec.gang.strategy = job.placement;
    spec.gang.topology_label = job.topology;
    for (const std::string& node : job.nodes) spec.gang.nodes_only.push_back(NodeId{node});
    for (const std::string& node : job.exclude_nodes) spec.gang.nodes_excluded.push_back(NodeId{node});
    // An elastic job starts with the fewest workers it can do with.
    spec.gang.bundles.assign(job.workers, Bundle{.demand = job.resources_per_worker, .selector = job.label_selector});
    return spec;
}

}  // namespace rtrain::spec

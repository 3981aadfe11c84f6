// Makes the RunSpec that the scheduler needs from a job. The job names its predecessors; the head replaces the names by
// runs.
#include <algorithm>

#include "storage/job_spec/job.hpp"

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
    spec.gang.driver = job.driver;
    for (const std::string& node : job.nodes) spec.gang.nodes_only.insert(NodeId{node});
    for (const std::string& node : job.exclude_nodes) spec.gang.nodes_excluded.insert(NodeId{node});
    const Bundle worker{.demand = job.resources_per_worker, .selector = job.label_selector};
    spec.gang.bundles.assign(std::max(job.workers, job.workers_max), worker);
    for (std::size_t i = 0; i < job.worker_selectors.size() && i < spec.gang.bundles.size(); ++i) {
        LabelSelector& all = spec.gang.bundles[i].selector;
        all.insert(all.end(), job.worker_selectors[i].begin(), job.worker_selectors[i].end());
    }
    if (job.workers_max > job.workers)
        spec.elastic = Elastic{.workers_min = job.workers, .grow_after = {job.grow_after_ms}};
    spec.checkpoint_on_drain = job.checkpoint_on_drain;
    return spec;
}

}  // namespace rtrain::spec

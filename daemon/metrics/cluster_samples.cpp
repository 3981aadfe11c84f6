// Counts over the whole cluster, and what is known of nodes and their GPUs.
#include <array>

#include "daemon/metrics/families.hpp"

namespace rtrain::metrics {
namespace {

constexpr std::array node_states = {NodeState::ready, NodeState::draining, NodeState::quarantined, NodeState::lost};
constexpr std::array run_states = {RunState::queued,     RunState::starting, RunState::running,
                                   RunState::recovering, RunState::resizing, RunState::stopping,
                                   RunState::succeeded,  RunState::failed,   RunState::stopped};

double as_double(Amount amount) { return static_cast<double>(amount.ticks) / Amount::per_unit; }

void add_gpu_totals(Families& families, const Cluster& cluster) {
    double total = 0, free = 0;
    for (const NodeView& node : node_views(cluster)) {
        if (node.state == NodeState::lost) continue;
        total += static_cast<double>(node.gpus_free.size());
        for (Amount device : node.gpus_free) free += as_double(device);
    }
    families.add("gpus", {{"state", "free"}}, free);
    families.add("gpus", {{"state", "allocated"}}, total - free);
}

void add_gpu(Families& families, const SampleLabels& labels, const LiveGpu& gpu) {
    auto add_known = [&](std::string_view name, const std::optional<double>& value) {
        if (value && *value == *value) families.add(name, labels, *value);
    };
    add_known("gpu_utilization_ratio", gpu.utilization_ratio);
    add_known("gpu_power_watts", gpu.power_watts);
    add_known("gpu_temperature_celsius", gpu.temperature_celsius);
    families.add("gpu_memory_used_bytes", labels, static_cast<double>(gpu.memory_used_bytes));
    families.add("gpu_memory_total_bytes", labels, static_cast<double>(gpu.memory_total_bytes));
    for (const auto& [xid, count] : gpu.xids) {
        SampleLabels with_xid = labels;
        with_xid.push_back({"xid", std::to_string(xid)});
        families.add("gpu_xid_events_total", std::move(with_xid), static_cast<double>(count));
    }
}

std::string uuid_of(const Live& live, const NodeId& node, std::uint32_t device) {
    auto found = live.nodes.find(node);
    if (found == live.nodes.end()) return "";
    for (const LiveGpu& gpu : found->second.gpus)
        if (gpu.index == device) return gpu.uuid;
    return "";
}

void add_allocations(Families& families, const Cluster& cluster, const Live& live) {
    for (const auto& [id, attempt] : cluster.attempts) {
        if (terminal(attempt.state)) continue;
        for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank)
            for (const GpuShare& share : attempt.workers[rank].seat.gpus) {
                const NodeId& node = attempt.workers[rank].seat.node;
                families.add("gpu_allocation_info",
                             {{"node", node.value},
                              {"gpu", std::to_string(share.device)},
                              {"gpu_uuid", uuid_of(live, node, share.device)},
                              {"run_id", run_id_text(cluster.meta.cluster_id, id.run)},
                              {"rank", std::to_string(rank)}},
                             1);
            }
    }
}

}  // namespace

void add_cluster_samples(Families& families, const Cluster& cluster, const Live& live) {
    std::map<NodeState, int> nodes;
    for (const auto& [id, node] : cluster.nodes) ++nodes[node.state];
    for (NodeState state : node_states) families.add("nodes", {{"state", to_text(state)}}, nodes[state]);
    std::map<RunState, int> runs;
    const std::int64_t since = shown_since(cluster, live.wall_ms);
    for (const auto& [id, run] : cluster.runs)
        if (is_shown(run, since)) ++runs[run.state];
    for (RunState state : run_states) families.add("runs", {{"state", to_text(state)}}, runs[state]);
    std::map<std::string, int> waiting = {{"default", 0}};
    for (RunId id : queue_order(cluster)) ++waiting[cluster.runs.at(id).spec.queue];
    for (const auto& [queue, length] : waiting) families.add("queue_length", {{"queue", queue}}, length);
    add_gpu_totals(families, cluster);
}

void add_node_samples(Families& families, const Cluster& cluster, const Live& live) {
    for (const auto& [id, node] : cluster.nodes) {
        families.add("node_gpus_expected", {{"node", id.value}}, node.gpus);
        auto seen = live.nodes.find(id);
        if (seen == live.nodes.end() || node.state == NodeState::lost) continue;
        families.add("memory_used_bytes", {{"node", id.value}}, static_cast<double>(seen->second.memory_used_bytes));
        if (seen->second.gpus_seen) families.add("node_gpus_seen", {{"node", id.value}}, *seen->second.gpus_seen);
        for (const LiveGpu& gpu : seen->second.gpus)
            add_gpu(families, {{"node", id.value}, {"gpu", std::to_string(gpu.index)}}, gpu);
    }
    add_allocations(families, cluster, live);
}

}  // namespace rtrain::metrics

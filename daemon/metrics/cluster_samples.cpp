// Counts over the whole cluster, and what is known of nodes and their GPUs.
#include <array>

#include "daemon/metrics/families.hpp"

namespace rtrain::metrics {
namespace {

constexpr std::array node_states = {NodeState::ready, NodeState::draining, NodeState::quarantined, NodeState::lost};
constexpr std::array run_states = {RunState::queued,     RunState::starting, RunState::running,
                                   RunState::recovering, RunState::resizing, RunState::stopping,
                                   RunState::succeeded,  RunState::failed,   RunState::stopped};

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
    auto entry = live.nodes.find(node);
    if (entry == live.nodes.end()) return "";
    for (const LiveGpu& gpu : entry->second.gpus)
        if (gpu.index == device) return gpu.uuid;
    return "";
}

void add_allocations(Families& families, const Records& records, const Live& live) {
    for (const auto& [id, run] : records.runs)
        for (const ShownGpu& gpu : run.gpus)
            families.add("gpu_allocation_info",
                         {{"node", gpu.node.value},
                          {"gpu", std::to_string(gpu.device)},
                          {"gpu_uuid", uuid_of(live, gpu.node, gpu.device)},
                          {"run_id", run_id_text(records.cluster_id, id)},
                          {"rank", std::to_string(gpu.rank.value)}},
                         1);
}

}  // namespace

void add_cluster_samples(Families& families, const Records& records) {
    std::map<NodeState, int> nodes;
    for (const auto& [id, node] : records.nodes) ++nodes[node.state];
    for (NodeState state : node_states) families.add("nodes", {{"state", to_text(state)}}, nodes[state]);
    std::map<RunState, int> runs;
    for (const auto& [id, run] : records.runs) ++runs[run.state];
    for (RunState state : run_states) families.add("runs", {{"state", to_text(state)}}, runs[state]);
    for (const auto& [queue, length] : records.queue_lengths)
        families.add("queue_length", {{"queue", queue}}, static_cast<double>(length));
    families.add("gpus", {{"state", "free"}}, records.gpus_free);
    families.add("gpus", {{"state", "allocated"}}, records.gpus_total - records.gpus_free);
}

void add_node_samples(Families& families, const Records& records, const Live& live) {
    for (const auto& [id, node] : records.nodes) {
        families.add("node_gpus_expected", {{"node", id.value}}, node.gpus);
        auto seen = live.nodes.find(id);
        if (seen == live.nodes.end() || node.state == NodeState::lost) continue;
        families.add("memory_used_bytes", {{"node", id.value}}, static_cast<double>(seen->second.memory_used_bytes));
        if (seen->second.gpus_seen) families.add("node_gpus_seen", {{"node", id.value}}, *seen->second.gpus_seen);
        for (const LiveGpu& gpu : seen->second.gpus)
            add_gpu(families, {{"node", id.value}, {"gpu", std::to_string(gpu.index)}}, gpu);
    }
    add_allocations(families, records, live);
}

}  // namespace rtrain::metrics

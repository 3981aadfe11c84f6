// Counts over the whole cluster, and what is known of nodes and their GPUs.
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "daemon/metrics/families.hpp"

namespace rtrain::metrics {
namespace {

constexpr std::array node_states = {NodeState::ready, NodeState::draining, NodeState::quarantined, NodeState::lost};
constexpr std::array run_states = {RunState::queued,     RunState::starting, RunState::running,
                                   RunState::recovering, RunState::resizing, RunState::stopping,
                                   RunState::succeeded,  RunState::failed,   RunState::stopped};

using OptionalValue = std::optional<double>;
struct GpuMetric {
    const char* name;
    OptionalValue (*value)(const LiveGpu&);
};
constexpr GpuMetric gpu_metrics[] = {
    {"gpu_utilization_ratio", [](const LiveGpu& gpu) { return gpu.utilization_ratio; }},
    {"gpu_memory_used_bytes",
     [](const LiveGpu& gpu) {
         return gpu.memory_total_bytes > 0 ? OptionalValue(static_cast<double>(gpu.memory_used_bytes)) : std::nullopt;
     }},
    {"gpu_memory_total_bytes",
     [](const LiveGpu& gpu) {
         return gpu.memory_total_bytes > 0 ? OptionalValue(static_cast<double>(gpu.memory_total_bytes)) : std::nullopt;
     }},
    {"gpu_power_watts", [](const LiveGpu& gpu) { return gpu.power_watts; }},
    {"gpu_temperature_celsius", [](const LiveGpu& gpu) { return gpu.temperature_celsius; }},
    {"gpu_foreign_processes", [](const LiveGpu& gpu) { return gpu.foreign_processes; }},
    {"gpu_foreign_memory_bytes", [](const LiveGpu& gpu) { return gpu.foreign_memory_bytes; }},
};

struct ShownLiveGpu {
    const LiveGpu* gpu;
    SampleLabels labels;
};

SampleLabels with(SampleLabels labels, const char* name, std::string value) {
    labels.push_back({name, std::move(value)});
    return labels;
}

void add_errors(Families& families, const ShownLiveGpu& of) {
    if (of.gpu->ecc_corrected)
        families.add("gpu_ecc_errors_total", with(of.labels, "kind", "corrected"), *of.gpu->ecc_corrected);
    if (of.gpu->ecc_uncorrected)
        families.add("gpu_ecc_errors_total", with(of.labels, "kind", "uncorrected"), *of.gpu->ecc_uncorrected);
}

void add_xids(Families& families, const ShownLiveGpu& of) {
    for (const auto& [xid, count] : of.gpu->xids)
        families.add("gpu_xid_events_total", with(of.labels, "xid", std::to_string(xid)), static_cast<double>(count));
}

bool is_up(const Records& records, const NodeId& id) {
    const auto node = records.nodes.find(id);
    return node != records.nodes.end() && node->second.state != NodeState::lost;
}

std::string uuid_of(const Live& live, const NodeId& node, std::uint32_t device) {
    auto entry = live.nodes.find(node);
    if (entry == live.nodes.end()) return "";
    for (const LiveGpu& gpu : entry->second.gpus)
        if (gpu.index == device) return gpu.uuid;
    return "";
}

}  // namespace

void add_cluster_samples(Families& families, const Records& records) {
    std::map<NodeState, int> nodes;
    for (const auto& [id, node] : records.nodes) ++nodes[node.state];
    for (NodeState state : node_states) families.add("nodes", {{"state", to_text(state)}}, nodes[state]);
    std::map<RunState, std::size_t> runs = records.not_shown;
    for (const auto& [id, run] : records.runs) ++runs[run.state];
    for (RunState state : run_states)
        families.add("runs", {{"state", to_text(state)}}, static_cast<double>(runs[state]));
    for (const auto& [queue, length] : records.queue_lengths)
        families.add("queue_length", {{"queue", queue}}, static_cast<double>(length));
    for (const Records::Budget& budget : records.budgets) {
        const SampleLabels labels{{"queue", budget.queue}, {"user", budget.user}};
        families.add("budget_gpu_hours", labels, budget.limit);
        families.add("budget_used_gpu_hours", labels, budget.used);
    }
    families.add("gpus", {{"state", "free"}}, records.gpus_free);
    families.add("gpus", {{"state", "allocated"}}, records.gpus_total - records.gpus_free);
}

void add_traffic(Families& families, const std::string& of, const SampleLabels& labels, const LiveTraffic& traffic) {
    const auto add_known = [&](const char* what, const std::optional<double>& bytes) {
        if (bytes) families.add(of + what, labels, *bytes);
    };
    add_known("_network_receive_bytes_total", traffic.network_received);
    add_known("_network_transmit_bytes_total", traffic.network_sent);
    add_known("_disk_read_bytes_total", traffic.disk_read);
    add_known("_disk_written_bytes_total", traffic.disk_written);
}

void add_disk(Families& families, const std::string& of, SampleLabels labels, const LiveDisk& disk) {
    labels.push_back({"place", disk.place});
    families.add(of + "_disk_size_bytes", labels, static_cast<double>(disk.size_bytes));
    families.add(of + "_disk_free_bytes", labels, static_cast<double>(disk.free_bytes));
}

void add_node_samples(Families& families, const Records& records, const Live& live) {
    if (live.head_disk) add_disk(families, "head", {}, *live.head_disk);
    for (const auto& [what, refused] : live.head_disk_reserved)
        families.add("head_disk_reserved", {{"what", what}}, refused ? 1 : 0);
    for (const LiveUser& of : live.users) {
        for (const auto& [place, bytes] : of.kept_bytes)
            families.add("user_kept_bytes", {{"user", of.user}, {"place", place}}, static_cast<double>(bytes));
        for (const auto& [place, bytes] : of.limit_bytes)
            families.add("user_limit_bytes", {{"user", of.user}, {"place", place}}, static_cast<double>(bytes));
        families.add("user_streams", {{"user", of.user}}, static_cast<double>(of.streams));
    }
    for (const auto& [id, node] : records.nodes) {
        const SampleLabels labels = {{"node", id.value}};
        families.add("node_gpus_expected", labels, node.gpus);
        const auto live_node = live.nodes.find(id);
        const bool up = live_node != live.nodes.end() && node.state != NodeState::lost;
        families.add("node_up", labels, up ? 1 : 0);
        if (!up) continue;
        const LiveNode& seen = live_node->second;
        families.add("memory_used_bytes", labels, static_cast<double>(seen.memory_used_bytes));
        families.add("memory_total_bytes", labels, static_cast<double>(seen.memory_total_bytes));
        add_traffic(families, "node", labels, seen.traffic);
        for (const LiveDisk& disk : seen.disks) add_disk(families, "node", labels, disk);
        if (seen.gpus_seen) families.add("node_gpus_seen", labels, *seen.gpus_seen);
    }
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

std::vector<Part> gpu_parts(const Records& records, const Live& live) {
    auto shown = std::make_shared<std::vector<ShownLiveGpu>>();
    for (const auto& [id, node] : live.nodes)
        if (is_up(records, id))
            for (const LiveGpu& gpu : node.gpus)
                shown->push_back({&gpu, {{"node", id.value}, {"gpu", std::to_string(gpu.index)}}});
    std::vector<Part> parts;
    for (const GpuMetric& metric : gpu_metrics)
        parts.emplace_back([shown, metric](Families& families) {
            prometheus::MetricFamily& family = families.of(metric.name);
            family.metric.reserve(shown->size());
            for (const ShownLiveGpu& of : *shown)
                if (const OptionalValue value = metric.value(*of.gpu); value && !std::isnan(*value))
                    add_sample(family, of.labels, *value);
        });
    for (const auto add : {add_errors, add_xids})
        parts.emplace_back([shown, add](Families& families) {
            for (const ShownLiveGpu& of : *shown) add(families, of);
        });
    return parts;
}

}  // namespace rtrain::metrics

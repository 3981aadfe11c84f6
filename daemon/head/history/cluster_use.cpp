// See cluster_use.hpp. docs/http-api.md lists the keys.
#include "daemon/head/history/cluster_use.hpp"

#include <algorithm>

namespace rtrain::head {
namespace {

// ms; a node without a heartbeat for this time counts as unused, since it is lost or has left
constexpr std::int64_t use_counts_ms = 60'000;

bool is_gpu_utilization(const std::string& key) {
    return key.starts_with("gpu") && key.ends_with("_utilization_ratio");
}

}  // namespace

void ClusterUse::heard(const SubjectSample& of_node) {
    OfNode& node = nodes_[of_node.first];
    node.wall_ms = of_node.second.wall_ms;
    std::optional<double> gpus;
    for (const auto& [key, value] : of_node.second.values) {
        if (key == "cpu_cores") node.cpus = value;
        if (is_gpu_utilization(key)) gpus = gpus.value_or(0) + value;
    }
    node.gpus = gpus;
}

history::NamedSample ClusterUse::sample(const ClusterCounts& counts) {
    std::erase_if(nodes_, [&](const auto& node) { return node.second.wall_ms < counts.wall_ms - use_counts_ms; });
    std::optional<double> cpus, gpus;
    for (const auto& [name, node] : nodes_) {
        if (node.cpus) cpus = cpus.value_or(0) + *node.cpus;
        if (node.gpus) gpus = gpus.value_or(0) + *node.gpus;
    }
    history::NamedSample out{.at = static_cast<std::uint64_t>(std::max<std::int64_t>(0, counts.wall_ms) / 1'000),
                             .wall_ms = counts.wall_ms,
                             .attempt = 0,
                             .step = 0,
                             .values = {{"gpus", counts.gpus},
                                        {"gpus_allocated", counts.gpus_allocated},
                                        {"cpus", counts.cpus},
                                        {"cpus_allocated", counts.cpus_allocated},
                                        {"runs_waiting", static_cast<double>(counts.runs_waiting)},
                                        {"runs_running", static_cast<double>(counts.runs_running)}}};
    const auto add = [&](const char* key, const std::optional<double>& value) {
        if (value) out.values.emplace_back(key, *value);
    };
    add("gpus_used", gpus);
    add("cpus_used", cpus);
    add("head_memory_bytes", counts.head_memory_bytes);
    add("head_longest_task_seconds", counts.head_longest_task_seconds);
    add("data_free_bytes", counts.data_free_bytes);
    add("storage_free_bytes", counts.storage_free_bytes);
    return out;
}

}  // namespace rtrain::head

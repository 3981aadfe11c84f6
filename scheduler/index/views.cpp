// Computes what placement sees of the nodes: totals less what attempts hold that have not ended.
#include <algorithm>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain {
namespace {

// Subtracts the demand, but not below zero: a node may have returned smaller than what a stopping attempt still holds.
void take(Resources& free, const Resources& demand) {
    for (const auto& [name, amount] : demand) {
        const auto entry = free.find(name);
        if (name == gpu_key || entry == free.end()) continue;
        entry->second = entry->second - std::min(entry->second, amount);
        if (entry->second.ticks == 0) free.erase(entry);
    }
}

void take(std::vector<Amount>& gpus, const std::vector<GpuShare>& shares) {
    for (const GpuShare& share : shares)
        if (share.device < gpus.size())
            gpus[share.device] = gpus[share.device] - std::min(gpus[share.device], share.amount);
}

}  // namespace

std::vector<NodeView> node_views(const Cluster& cluster) {
    std::vector<NodeView> views;
    views.reserve(cluster.nodes.size());
    std::map<NodeId, std::size_t> index;
    for (const auto& [id, node] : cluster.nodes) {
        index.emplace_hint(index.end(), id, views.size());
        views.push_back({.id = id,
                         .state = state_for_placement(node),
                         .labels = node.labels,
                         .total = node.total,
                         .free = node.total,
                         .gpus_free = std::vector<Amount>(node.gpus, units(1)),
                         .awaited = is_awaited(node)});
    }
    for (const auto& [id, attempt] : cluster.attempts) {
        if (terminal(attempt.state)) continue;
        const Run& run = cluster.runs.at(id.run);
        const auto& bundles = run.spec.gang.bundles;
        for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank) {
            const Seat& seat = attempt.workers[rank].seat;
            const auto entry = index.find(seat.node);
            if (entry == index.end()) continue;
            take(views[entry->second].free, bundles[rank].demand);
            if (zero(bundles[rank].demand)) ++views[entry->second].zero_bundles[run.user];
            take(views[entry->second].gpus_free, seat.gpus);
        }
    }
    return views;
}

}  // namespace rtrain

// See yielding.hpp.
#include "tests/sim/yielding.hpp"

#include <algorithm>

#include "scheduler/model/derived.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/queue/order.hpp"

namespace rtrain::sim {
namespace {

bool waits_now(const Cluster& cluster, const Run& run) {
    return (run.state == RunState::queued || run.state == RunState::recovering) && !core::is_blocked(run) &&
           run.retry_at <= cluster.meta.now && !yields(run) && !demand_of(run).empty();
}

enum class Gone { all, ending };  // the yielding runs that are counted as ended

std::vector<NodeView> nodes_without(const Cluster& cluster, Gone gone) {
    std::vector<NodeView> nodes = node_views(cluster);
    for (const auto& [id, attempt] : cluster.attempts) {
        const Run& run = cluster.runs.at(id.run);
        if (terminal(attempt.state) || !yields(run)) continue;
        if (gone == Gone::all || attempt.state == AttemptState::stopping) give_back(nodes, run, attempt);
    }
    return nodes;
}

// Removes the seats that other waiting runs have reserved, whenever these begin.
void remove_reserved(std::vector<NodeView>& nodes, const Cluster& cluster, const Run& but) {
    for (const auto& [id, run] : cluster.runs) {
        if (id == but.id) continue;
        for (std::size_t rank = 0; rank < run.seats_reserved.size(); ++rank)
            for (NodeView& node : nodes) {
                if (node.id != run.seats_reserved[rank].node) continue;
                for (const auto& [name, amount] : demand_of(run, rank))
                    if (const auto free = node.free.find(name); name != gpu_key && free != node.free.end())
                        free->second = free->second - std::min(free->second, amount);
                for (const GpuShare& share : run.seats_reserved[rank].gpus)
                    if (share.device < node.gpus_free.size())
                        node.gpus_free[share.device] =
                            node.gpus_free[share.device] - std::min(node.gpus_free[share.device], share.amount);
            }
    }
}

bool fits(const std::vector<NodeView>& nodes, const Run& run) {
    return place(nodes, request_of(run)).verdict == Verdict::feasible_now;
}

// Quotas and awaited nodes would need the scheduler's own rules: such clusters are left out.
std::string kept_waiting(const Cluster& cluster) {
    const bool awaits = std::any_of(cluster.nodes.begin(), cluster.nodes.end(),
                                    [](const auto& entry) { return is_awaited(entry.second); });
    const bool some = std::any_of(cluster.runs.begin(), cluster.runs.end(), [](const auto& entry) {
        return yields(entry.second) && !terminal(entry.second.state);
    });
    if (!some || awaits || !cluster.queues.rules.empty()) return "";
    for (const RunId id : queue_order(cluster)) {
        const Run& run = cluster.runs.at(id);
        if (!waits_now(cluster, run)) continue;
        std::vector<NodeView> nodes = nodes_without(cluster, Gone::all);
        remove_reserved(nodes, cluster, run);
        if (!fits(nodes, run)) continue;
        if (fits(nodes_without(cluster, Gone::ending), run)) return "";  // runs behind it may need the same seats
        return run.name + " would fit without yielding runs, which do not end for it";
    }
    return "";
}

}  // namespace

std::string YieldWatch::decided(const Decision& decision, const Cluster& after) {
    for (const Record& record : decision.save) {
        const auto* run = std::get_if<Run>(&record);
        if (run == nullptr) continue;
        const bool ends = terminal(run->state) || run->state == RunState::stopping;
        if (run->reason.is<reasons::YieldedTo>()) yielded_.insert(run->id);
        if (yielded_.contains(run->id) && !ends) return run->name + " has yielded, and is " + to_text(run->state);
    }
    return decision.save.empty() ? "" : kept_waiting(after);
}

void YieldWatch::forgotten(const Cluster& disk) {
    yielded_.clear();
    for (const auto& [id, run] : disk.runs)
        if (run.reason.is<reasons::YieldedTo>()) yielded_.insert(id);
}

}  // namespace rtrain::sim

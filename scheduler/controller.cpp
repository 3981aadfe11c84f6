// The entry point: one event, one decision. After an event that may have freed or added resources, a scheduling cycle
// runs.
#include "scheduler/controller.hpp"

#include <algorithm>

#include "scheduler/cycle/scheduling_cycle.hpp"
#include "scheduler/lifecycle/handlers.hpp"

namespace rtrain {

Decision decide(Cluster& cluster, Time now, const Event& event) {
    cluster.index.catch_up(cluster);
    const Time before = cluster.meta.now;
    core::Change change(cluster, std::max(now, before));
    std::visit([&](const auto& what) { core::on(change, what); }, event);
    if (change.refused()) return change.finish();
    if (change.renew_budgets()) change.look_for_room();
    // A backoff or a reservation ends, or a gang begins to starve, between the last stored time and now. Any event may
    // be the first to observe that.
    if (cluster.index.retries_within(before, change.now())) change.look_for_room();
    if (change.room_looked_for()) {
        core::enforce_budgets(change);
        core::place_waiting(change);
    }
    return change.finish();
}

// Returns only times after the stored Meta::now. The TimePassed event that set Meta::now handled the earlier ones.
std::optional<Time> next_wake(const Cluster& cluster) {
    if (!cluster.arrays.empty()) return cluster.meta.now;  // the next TimePassed makes further runs of the arrays
    ClusterIndex scratch;
    const auto wake = in_step(cluster, scratch).next_wake(cluster.meta.now);
    const auto budget =
        cluster.spent.known ? cluster.spent.changes : core::spent_budgets(cluster, cluster.meta.now).changes;
    return wake && budget ? std::min(wake, budget) : wake ? wake : budget;
}

namespace {

void put(Cluster& cluster, const Meta& meta) { cluster.meta = meta; }
void put(Cluster& cluster, const Node& node) { cluster.nodes[node.id] = node; }
void put(Cluster& cluster, const Run& run) { cluster.runs[run.id] = run; }
void put(Cluster& cluster, const Attempt& attempt) { cluster.attempts[attempt.id] = attempt; }
void put(Cluster& cluster, const AttemptNode& part) {
    const auto whole = cluster.attempts.find(part.attempt);
    if (whole != cluster.attempts.end()) std::erase(whole->second.nodes_waiting, part.node);
}
void put(Cluster& cluster, const AttemptWorker& part) {
    const auto whole = cluster.attempts.find(part.attempt);
    if (whole == cluster.attempts.end() || part.rank.value >= whole->second.workers.size()) return;
    Worker& worker = whole->second.workers[part.rank.value];
    worker.state = part.state;
    worker.pid = part.pid;
    worker.exit = part.exit;
    worker.exit_wall_us = part.exit_wall_us;
}
void put(Cluster& cluster, const Queues& queues) { cluster.queues = queues; }
void put(Cluster& cluster, const QueueUse& use) { cluster.use[use.queue] = use; }
void put(Cluster& cluster, const BudgetUse& use) { cluster.budgets[{use.queue, use.user}] = use; }
void put(Cluster& cluster, const EraseBudgetUse& erase) { cluster.budgets.erase({erase.queue, erase.user}); }
void put(Cluster& cluster, const Checkpoint& c) { cluster.checkpoints[{.run = c.run, .directory = c.directory}] = c; }
void put(Cluster& cluster, const PendingArray& array) { cluster.arrays[array.model.id] = array; }
void put(Cluster& cluster, const EraseArray& erase) { cluster.arrays.erase(erase.first); }
void put(Cluster& cluster, const EraseNode& erase) { cluster.nodes.erase(erase.id); }
void put(Cluster& cluster, const EraseAttempt& erase) { cluster.attempts.erase(erase.id); }
void put(Cluster& cluster, const EraseCheckpoint& erase) { cluster.checkpoints.erase(erase.key); }
void put(Cluster& cluster, const EraseRun& erase) {
    cluster.runs.erase(erase.id);
    const RunId next{erase.id.value + 1};
    cluster.attempts.erase(cluster.attempts.lower_bound({.run = erase.id, .number = 0}),
                           cluster.attempts.lower_bound({.run = next, .number = 0}));
    cluster.checkpoints.erase(cluster.checkpoints.lower_bound({.run = erase.id, .directory = {}}),
                              cluster.checkpoints.lower_bound({.run = next, .directory = {}}));
}

}  // namespace

void apply(Cluster& cluster, const Record& record) {
    std::visit([&](const auto& what) { put(cluster, what); }, record);
    cluster.index.fall_behind();
    cluster.spent.known = false;
}

}  // namespace rtrain

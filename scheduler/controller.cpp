// The way in: one event, one decision. After an event that may have freed or brought room, the queue is looked at.
#include "scheduler/controller.hpp"

#include <algorithm>

#include "scheduler/machine.hpp"

namespace rtrain {
namespace {

void earliest(std::optional<Time>& wake, Time candidate) {
    if (!wake || candidate < *wake) wake = candidate;
}

// A backoff that ends between the last persisted time and now: any event may be the first to see it.
bool retry_comes_due(const Cluster& cluster, Time now) {
    return std::any_of(cluster.runs.begin(), cluster.runs.end(), [&](const auto& entry) {
        const Run& run = entry.second;
        return run.state == RunState::recovering && run.retry_at > cluster.meta.now && run.retry_at <= now;
    });
}

}  // namespace

Decision decide(Cluster& cluster, Time now, const Event& event) {
    core::Change change(cluster, std::max(now, cluster.meta.now));
    std::visit([&](const auto& what) { core::on(change, what); }, event);
    if (change.refused()) return change.finish();
    if (retry_comes_due(cluster, change.now())) change.look_for_room();
    if (change.room_looked_for()) core::place_waiting(change);
    return change.finish();
}

// Times that have passed were dealt with by the TimePassed that brought Meta::now here.
std::optional<Time> next_wake(const Cluster& cluster) {
    std::optional<Time> wake;
    for (const auto& [id, run] : cluster.runs) {
        if (terminal(run.state)) continue;
        if (run.state == RunState::recovering && run.retry_at > cluster.meta.now) earliest(wake, run.retry_at);
        if (run.state == RunState::queued && run.attempts == 0 && run.spec.queue_time_limit)
            earliest(wake, run.submitted + *run.spec.queue_time_limit);
        if (run.state != RunState::stopping && run.started.ms != 0 && run.spec.wall_time_limit)
            earliest(wake, run.started + *run.spec.wall_time_limit);
    }
    return wake;
}

namespace {

void put(Cluster& cluster, const Meta& meta) { cluster.meta = meta; }
void put(Cluster& cluster, const Node& node) { cluster.nodes[node.id] = node; }
void put(Cluster& cluster, const Run& run) { cluster.runs[run.id] = run; }
void put(Cluster& cluster, const Attempt& attempt) { cluster.attempts[attempt.id] = attempt; }
void put(Cluster& cluster, const Checkpoint& c) { cluster.checkpoints[{.run = c.run, .directory = c.directory}] = c; }
void put(Cluster& cluster, const EraseNode& erase) { cluster.nodes.erase(erase.id); }
void put(Cluster& cluster, const EraseAttempt& erase) { cluster.attempts.erase(erase.id); }
void put(Cluster& cluster, const EraseCheckpoint& erase) { cluster.checkpoints.erase(erase.key); }
void put(Cluster& cluster, const EraseRun& erase) {
    cluster.runs.erase(erase.id);
    std::erase_if(cluster.attempts, [&](const auto& entry) { return entry.first.run == erase.id; });
    std::erase_if(cluster.checkpoints, [&](const auto& entry) { return entry.first.run == erase.id; });
}

}  // namespace

void apply(Cluster& cluster, const Record& record) {
    std::visit([&](const auto& what) { put(cluster, what); }, record);
}

}  // namespace rtrain

// Deadlines in the cluster index: of attempts with a checkpoint request, and of draining nodes. A deadline is due until
// the records change.
#include "scheduler/index/cluster.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain {
namespace {

template <class Id>
void put(std::set<std::pair<Time, Id>>& times, std::map<Id, Time>& known, const Id& id, std::optional<Time> time) {
    if (const auto before = known.find(id); before != known.end()) {
        times.erase({before->second, id});
        known.erase(before);
    }
    if (!time) return;
    times.insert({*time, id});
    known.emplace(id, *time);
}

template <class Id>
std::vector<Id> until(const std::set<std::pair<Time, Id>>& times, Time now) {
    std::vector<Id> ids;
    for (auto at = times.begin(); at != times.end() && at->first <= now; ++at) ids.push_back(at->second);
    return ids;
}

}  // namespace

void ClusterIndex::renew_request(const Cluster& cluster, AttemptId id) {
    const auto entry = cluster.attempts.find(id);
    std::optional<Time> deadline;
    if (entry != cluster.attempts.end() && entry->second.state == AttemptState::running && entry->second.request)
        deadline = entry->second.request->deadline;
    put(request_deadlines_, request_deadline_of_, id, deadline);
}

void ClusterIndex::renew_drain(const Cluster& cluster, const NodeId& id) {
    const auto entry = cluster.nodes.find(id);
    put(drained_, drained_until_, id, entry == cluster.nodes.end() ? std::nullopt : entry->second.drain_deadline);
}

// Stores a fixed expected end in sorted order. The few attempts whose end moves with time are in `restless_`.
void ClusterIndex::renew_end(const Cluster& cluster, AttemptId id) {
    std::optional<Release> release;
    const bool lives = live_attempts_.contains(id);
    if (lives) {
        const Attempt& attempt = cluster.attempts.at(id);
        attempts_.at(id).end = core::known_end(cluster, attempt).value_or(unknown_end);
        if (!reserved_.empty()) renew_releases(id);
        const Run& run = cluster.runs.at(id.run);
        const bool rests = attempt.state == AttemptState::running && run.started.ms != 0 && run.spec.stop_at.empty() &&
                           !attempt.request;
        if (rests)
            release = {
                .end = core::wall_time_end(run).value_or(unknown_end), .placed = attempt.placed_at, .attempt = id};
    }
    const auto before = end_of_.find(id);
    if (release && before != end_of_.end() && before->second == *release) return;
    if (before != end_of_.end()) {
        ends_.erase(before->second);
        end_of_.erase(before);
    }
    if (lives && !release)
        restless_.insert(id);
    else
        restless_.erase(id);
    if (!release) return;
    ends_.insert(*release);
    end_of_.emplace(id, *release);
}

std::vector<AttemptId> ClusterIndex::requests_due(Time now) const { return until(request_deadlines_, now); }
std::vector<NodeId> ClusterIndex::drained_until(Time now) const { return until(drained_, now); }

}  // namespace rtrain

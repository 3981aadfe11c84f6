// Deadlines in the ledger: of attempts that are asked for a checkpoint, and of nodes that drain. They are due until the
// records say otherwise.
#include "scheduler/controller.hpp"

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

void Ledger::renew_ask(const Cluster& cluster, AttemptId id) {
    const auto found = cluster.attempts.find(id);
    std::optional<Time> deadline;
    if (found != cluster.attempts.end() && found->second.state == AttemptState::running && found->second.ask)
        deadline = found->second.ask->deadline;
    put(asked_, asked_until_, id, deadline);
}

void Ledger::renew_drain(const Cluster& cluster, const NodeId& id) {
    const auto found = cluster.nodes.find(id);
    put(drained_, drained_until_, id, found == cluster.nodes.end() ? std::nullopt : found->second.drain_deadline);
}

std::vector<AttemptId> Ledger::asked_until(Time now) const { return until(asked_, now); }
std::vector<NodeId> Ledger::drained_until(Time now) const { return until(drained_, now); }

}  // namespace rtrain

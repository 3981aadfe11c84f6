// See yielding.hpp.
#include "scheduler/queue/yielding.hpp"

#include <algorithm>

#include "scheduler/index/outlook.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain::core {
namespace {

// Returns the demand beyond what the run's own attempt holds.
Sums demand_of(const SeatsWanted& wanted) {
    Sums total;
    const std::size_t held = wanted.own == nullptr ? 0 : wanted.own->workers.size();
    for (std::size_t rank = held; rank < wanted.gang.bundles.size(); ++rank)
        add(total, wanted.gang.bundles[rank].demand);
    return total;
}

// Subtracts what is free of the amounts.
void take(NodeView& node, const Held& held) {
    for (const auto& [name, amount] : held.amounts) {
        const auto free = node.free.find(name);
        if (free != node.free.end()) free->second = free->second - std::min(free->second, amount);
    }
    for (std::size_t device = 0; device < std::min(held.gpus.size(), node.gpus_free.size()); ++device)
        node.gpus_free[device] = node.gpus_free[device] - std::min(node.gpus_free[device], held.gpus[device]);
}

bool has(const NodeView& node, const Held& held) {
    return held.gpus.size() <= node.gpus_free.size() &&
           std::equal(held.gpus.begin(), held.gpus.end(), node.gpus_free.begin(),
                      [](const Amount& wanted, const Amount& free) { return wanted <= free; }) &&
           std::all_of(held.amounts.begin(), held.amounts.end(), [&](const auto& entry) {
               return entry.first == gpu_key || entry.second <= amount_of(node.free, entry.first);
           });
}

std::map<NodeId, Held> by_node(const GangRequest& gang, const Seats& seats) {
    std::map<NodeId, Held> out;
    for (std::size_t rank = 0; rank < seats.size(); ++rank) {
        Resources demand = gang.bundles[rank].demand;
        demand.erase(std::string(gpu_key));
        add(out[seats[rank].node], demand, seats[rank].gpus);
    }
    return out;
}

bool hold(const std::vector<NodeView>& nodes, const std::map<NodeId, Held>& wanted) {
    return std::all_of(wanted.begin(), wanted.end(), [&](const auto& entry) {
        const auto node = std::lower_bound(nodes.begin(), nodes.end(), entry.first,
                                           [](const NodeView& view, const NodeId& id) { return view.id < id; });
        return node != nodes.end() && node->id == entry.first && node->state == NodeState::ready &&
               has(*node, entry.second);
    });
}

}  // namespace

std::vector<AttemptId> yielding_attempts(const Cluster& cluster) {
    std::vector<AttemptId> attempts;
    for (const RunId id : cluster.index.yielding())
        if (const Attempt* live = live_attempt(cluster, id)) attempts.push_back(live->id);
    return attempts;
}

YieldedRoom::YieldedRoom(const Cluster& cluster, const Quotas& quotas)
    : cluster_(cluster), without_all_(quotas), without_ended_(quotas), with_claims_(quotas) {
    for (const AttemptId id : yielding_attempts(cluster)) {
        all_.insert(id);
        const Run& run = cluster.runs.at(id.run);
        const Sums held = allocated_to(cluster, cluster.attempts.at(id));
        without_all_.uncount(run.spec.queue, held);
        without_all_.uncount_user(run, held);
        if (cluster.attempts.at(id).state == AttemptState::stopping) end(id);
    }
}

void YieldedRoom::end(AttemptId id) {
    const Run& run = cluster_.runs.at(id.run);
    const Sums held = allocated_to(cluster_, cluster_.attempts.at(id));
    ended_.insert(id);
    without_ended_.uncount(run.spec.queue, held);
    without_ended_.uncount_user(run, held);
}

void YieldedRoom::take_claimed(std::vector<NodeView>& nodes) const {
    for (NodeView& node : nodes)
        if (const auto held = claimed_.find(node.id); held != claimed_.end()) take(node, held->second);
}

std::vector<NodeView> YieldedRoom::nodes_without(const std::set<AttemptId>& ended, const SeatsWanted& wanted) const {
    Outlook outlook(cluster_, wanted.open);
    for (const AttemptId id : ended) outlook.give_back(cluster_.attempts.at(id));
    if (wanted.own != nullptr) outlook.give_back(*wanted.own);
    std::vector<NodeView> nodes = std::move(outlook).nodes();
    take_claimed(nodes);
    return nodes;
}

NodeView YieldedRoom::node_without(const std::set<AttemptId>& ended, const NodeId& id, const Attempt* own) const {
    NodeView node = *cluster_.index.node(id);
    for (const AttemptId on : cluster_.index.on_node(id)) {
        if (!ended.contains(on) && (own == nullptr || on != own->id)) continue;
        const auto& [amounts, shares] = cluster_.index.allocated_to(on).at(id);
        for (const auto& [name, amount] : amounts)
            if (name != gpu_key && amount.ticks != 0) node.free[name] = node.free[name] + amount;
        for (const GpuShare& share : shares)
            if (share.device < node.gpus_free.size())
                node.gpus_free[share.device] = node.gpus_free[share.device] + share.amount;
    }
    if (const auto held = claimed_.find(id); held != claimed_.end()) take(node, held->second);
    return node;
}

bool YieldedRoom::within_quota(const SeatsWanted& wanted) const {
    return !without_all_.refuses(wanted.run.spec.queue, demand_of(wanted), wanted.who);
}

std::optional<Seats> YieldedRoom::seats_for(const SeatsWanted& wanted) const {
    if (!within_quota(wanted)) return std::nullopt;
    PlacementAnswer answer = place(nodes_without(all_, wanted), wanted.gang);
    return answer.verdict == Verdict::feasible_now ? std::optional(std::move(answer.seats)) : std::nullopt;
}

bool YieldedRoom::fits(const SeatsWanted& wanted, const Seats& seats) const {
    return hold(nodes_without(all_, wanted), by_node(wanted.gang, seats));
}

bool YieldedRoom::are_free_now(const SeatsWanted& wanted, const Seats& seats) const {
    return !with_claims_.refuses(wanted.run.spec.queue, demand_of(wanted), wanted.who) &&
           hold(nodes_without({}, wanted), by_node(wanted.gang, seats));
}

std::vector<RunId> YieldedRoom::claim(const SeatsWanted& wanted, const Seats& seats) {
    std::vector<RunId> victims;
    end_for_seats(wanted, seats, victims);
    end_for_quota(wanted, victims);
    for (const auto& [node, held] : by_node(wanted.gang, seats)) add(claimed_[node], held);
    const Sums demand = demand_of(wanted);
    for (Quotas* quotas : {&without_all_, &without_ended_, &with_claims_}) {
        quotas->starts(wanted.run.id);
        quotas->count(wanted.run.spec.queue, demand);
        if (wanted.own == nullptr) quotas->count_user(wanted.run, demand);
    }
    return victims;
}

// Adds victims on each node, the newest first, until the node's free amounts hold the seats. Then removes those that
// turned out to be unneeded. A closed reservation that does not count on the victims' ends may keep back a part of
// their amounts: then all yielding runs of the nodes end.
void YieldedRoom::end_for_seats(const SeatsWanted& wanted, const Seats& seats, std::vector<RunId>& victims) {
    const std::map<NodeId, Held> needed = by_node(wanted.gang, seats);
    if (hold(nodes_without(ended_, wanted), needed)) return;
    std::vector<AttemptId> chosen, possible;
    for (auto id = all_.rbegin(); id != all_.rend(); ++id)
        if (const auto& allocated = cluster_.index.allocated_to(*id);
            !ended_.contains(*id) && std::any_of(allocated.begin(), allocated.end(),
                                                 [&](const auto& entry) { return needed.contains(entry.first); }))
            possible.push_back(*id);
    std::set<AttemptId> ended = ended_;
    const auto missing_on = [&](const NodeId& node) {
        return !has(node_without(ended, node, wanted.own), needed.at(node));
    };
    for (const auto& [node, held] : needed)
        for (const AttemptId id : possible) {
            if (!missing_on(node)) break;
            if (!cluster_.index.allocated_to(id).contains(node) || !ended.insert(id).second) continue;
            chosen.push_back(id);
        }
    std::erase_if(chosen, [&](AttemptId id) {  // the first ones were chosen before it was known that later ones suffice
        ended.erase(id);
        const auto& allocated = cluster_.index.allocated_to(id);
        const bool unneeded = std::none_of(allocated.begin(), allocated.end(), [&](const auto& entry) {
            return needed.contains(entry.first) && missing_on(entry.first);
        });
        if (!unneeded) ended.insert(id);
        return unneeded;
    });
    if (!hold(nodes_without(ended, wanted), needed)) chosen = possible;
    for (const AttemptId id : chosen) {
        end(id);
        victims.push_back(id.run);
    }
}

// Adds victims whose end makes room in the quota that refuses the run, the newest first.
void YieldedRoom::end_for_quota(const SeatsWanted& wanted, std::vector<RunId>& victims) {
    const Sums demand = demand_of(wanted);
    for (auto id = all_.rbegin(); id != all_.rend(); ++id) {
        const auto over = without_ended_.refuses(wanted.run.spec.queue, demand, wanted.who);
        if (!over) return;
        const Run& run = cluster_.runs.at(id->run);
        const std::string& limited = over->lent() ? over->lender : over->queue;
        const bool helps = without_ended_.below(run.spec.queue, limited) &&
                           (!over->of_user || run.user == wanted.run.user) && !ended_.contains(*id);
        if (!helps) continue;
        end(*id);
        victims.push_back(id->run);
    }
}

}  // namespace rtrain::core

// Nodes in the cluster index: their attempts and free amounts. A node's free amounts are its totals less exact sums of
// what is held. They are shown as zero if a node has returned smaller than what a stopping attempt still holds.
#include <algorithm>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain {

const std::set<AttemptId>& ClusterIndex::on_node(const NodeId& node) const {
    static const std::set<AttemptId> nobody;
    const auto entry = standing_.find(node);
    return entry == standing_.end() ? nobody : entry->second.attempts;
}

const NodeView* ClusterIndex::node(const NodeId& id) const {
    const auto entry = places_.find(id);
    return entry == places_.end() ? nullptr : &views_[entry->second];
}

void ClusterIndex::sum(const NodeView& view, int sign) {
    if (view.state != NodeState::ready) return;
    for (const auto& [name, amount] : view.free) free_[name].ticks += sign * amount.ticks;
    std::int64_t gpus = 0;
    for (const Amount gpu : view.gpus_free) gpus += gpu.ticks;
    if (gpus > 0) free_[std::string(gpu_key)].ticks += sign * gpus;
}

void ClusterIndex::sum_totals(const NodeView& view, int sign) {
    if (view.state == NodeState::lost) return;
    Resources all = view.total;
    if (!view.gpus_free.empty()) all[std::string(gpu_key)] = units(static_cast<std::int64_t>(view.gpus_free.size()));
    sign > 0 ? add(totals_, all) : subtract(totals_, all);
}

void ClusterIndex::refresh(NodeView& view, const Standing& standing) {
    view.free = view.total;
    std::erase_if(view.free, [](const auto& entry) { return entry.second.ticks == 0; });
    for (const auto& [name, amount] : standing.used) {
        const auto amount_at = view.free.find(name);
        if (name == gpu_key || amount_at == view.free.end()) continue;
        amount_at->second = amount_at->second - std::min(amount_at->second, amount);
        if (amount_at->second.ticks == 0) view.free.erase(amount_at);
    }
    view.zero_bundles = standing.zero_bundles;
    for (std::size_t device = 0; device < view.gpus_free.size(); ++device) {
        const Amount used = device < standing.gpus_used.size() ? standing.gpus_used[device] : Amount{};
        view.gpus_free[device] = units(1) - std::min(units(1), used);
    }
}

// Updates the node's view where its free amounts have changed.
void ClusterIndex::show(const NodeId& id, const Standing& standing, const Resources& changed,
                        const std::vector<GpuShare>& shares) {
    const auto entry = places_.find(id);
    if (entry == places_.end()) return;
    NodeView& view = views_[entry->second];
    const bool ready = view.state == NodeState::ready;
    bool more = false;
    for (const auto& [name, ignored] : changed) {
        const Amount total = amount_of(view.total, name);
        if (name == gpu_key || total.ticks == 0) continue;
        const Amount was = amount_of(view.free, name);
        const Amount free = total - std::min(total, amount_of(standing.used, name));
        more |= free > was;
        if (ready) free_[name].ticks += free.ticks - was.ticks;
        if (free.ticks == 0)
            view.free.erase(name);
        else
            view.free.insert_or_assign(name, free);
    }
    std::int64_t gpus = 0;
    for (const GpuShare& share : shares) {
        if (share.device >= view.gpus_free.size()) continue;
        Amount& device = view.gpus_free[share.device];
        const Amount free = units(1) - std::min(units(1), standing.gpus_used[share.device]);
        gpus += free.ticks - device.ticks;
        more |= free > device;
        device = free;
    }
    for (const auto& [user, before] : view.zero_bundles) {
        const auto now = standing.zero_bundles.find(user);
        more |= now == standing.zero_bundles.end() || now->second < before;
    }
    view.zero_bundles = standing.zero_bundles;
    if (ready && gpus != 0) free_[std::string(gpu_key)].ticks += gpus;
    if (more) gains_.add(id);
    free_slots_.put_free(view);
}

// Removes stored answers of `ever` that the change of a node from `before` to `now` can make wrong. Null: the node is
// absent.
void ClusterIndex::forget_ever(const NodeView* before, const NodeView* now) {
    std::erase_if(ever_, [&](const auto& known) {
        const auto& [shape, could] = known;
        const NodeView* node = could ? before : now;
        if (node == nullptr) return false;
        const std::vector<Amount> gpus(node->gpus_free.size(), units(1));
        return placing::takes_one(*node, shapes_[shape].gang, node->total, gpus);
    });
}

void ClusterIndex::renew_node(const Cluster& cluster, const NodeId& id) {
    const auto record = cluster.nodes.find(id);
    const auto known = places_.find(id);
    gains_.add(id);
    if (known != places_.end()) {
        awaited_ -= views_[known->second].awaited ? 1 : 0;
        sum(views_[known->second], -1);
        sum_totals(views_[known->second], -1);
    }
    if (record == cluster.nodes.end()) {
        if (known == places_.end()) return;
        forget_ever(&views_[known->second], nullptr);
        views_.erase(views_.begin() + static_cast<std::ptrdiff_t>(known->second));
        masks_.erase(masks_.begin() + static_cast<std::ptrdiff_t>(known->second));
        holds_.erase(holds_.begin() + static_cast<std::ptrdiff_t>(known->second));
        for (auto& [other, place] : places_) place -= place > known->second ? 1 : 0;
        places_.erase(known);
        free_slots_.erase(id);
        return;
    }
    const Node& node = record->second;
    NodeView view{.id = id,
                  .state = state_for_placement(node),
                  .labels = node.labels,
                  .total = node.total,
                  .free = {},
                  .gpus_free = std::vector<Amount>(node.gpus, units(1)),
                  .awaited = is_awaited(node)};
    awaited_ += view.awaited ? 1 : 0;
    refresh(view, standing_[id]);
    sum(view, +1);
    sum_totals(view, +1);
    free_slots_.put(view);
    forget_ever(known == places_.end() ? nullptr : &views_[known->second], &view);
    if (known != places_.end()) {
        views_[known->second] = std::move(view);
        return;
    }
    const auto after =
        std::lower_bound(views_.begin(), views_.end(), id,
                         [](const NodeView& other_view, const NodeId& wanted) { return other_view.id < wanted; });
    const auto place = static_cast<std::size_t>(after - views_.begin());
    for (auto& [other, at] : places_) at += at >= place ? 1 : 0;
    places_.emplace(id, place);
    views_.insert(after, std::move(view));
    masks_.insert(masks_.begin() + static_cast<std::ptrdiff_t>(place), ReservationMask{0});
    holds_.insert(holds_.begin() + static_cast<std::ptrdiff_t>(place), NodeHolds{});
    if (!reserved_.empty()) renew_holds(place);
}

void ClusterIndex::hold(const Cluster& cluster, const Attempt& attempt) {
    const Run& run = cluster.runs.at(attempt.id.run);
    Allocation allocation;
    allocation.queue = run.spec.queue;
    allocation.user = run.user;
    for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank) {
        const Seat& seat = attempt.workers[rank].seat;
        auto& [sum, shares] = allocation.by_node[seat.node];
        const Resources& demand = demand_of(run, rank);
        add(sum, demand);
        if (zero(demand)) ++allocation.zero_bundles[seat.node];
        shares.insert(shares.end(), seat.gpus.begin(), seat.gpus.end());
    }
    for (const auto& [id, what] : allocation.by_node) {
        const auto& [sum, shares] = what;
        Standing& standing = standing_[id];
        standing.attempts.insert(attempt.id);
        add(standing.used, sum);
        if (const auto zeros = allocation.zero_bundles.find(id); zeros != allocation.zero_bundles.end())
            standing.zero_bundles[run.user] += zeros->second;
        for (const GpuShare& share : shares) {
            if (share.device >= standing.gpus_used.size()) standing.gpus_used.resize(share.device + 1);
            standing.gpus_used[share.device] = standing.gpus_used[share.device] + share.amount;
        }
        show(id, standing, sum, shares);
        add(allocation.total, sum);
    }
    add(in_use_[allocation.queue], allocation.total);
    UserHold& hold = user_holds_[{allocation.queue, allocation.user}];
    ++hold.runs;
    hold.gpus = hold.gpus + amount_of(allocation.total, gpu_key);
    live_attempts_.insert(attempt.id);
    attempts_.emplace(attempt.id, std::move(allocation));
}

void ClusterIndex::let_go(AttemptId id) {
    const auto entry = attempts_.find(id);
    if (entry == attempts_.end()) return;
    if (!reserved_.empty()) forget_releases(id);
    for (const auto& [node, what] : entry->second.by_node) {
        const auto& [sum, shares] = what;
        Standing& standing = standing_.at(node);
        standing.attempts.erase(id);
        subtract(standing.used, sum);
        if (const auto zeros = entry->second.zero_bundles.find(node); zeros != entry->second.zero_bundles.end())
            if ((standing.zero_bundles[entry->second.user] -= zeros->second) == 0)
                standing.zero_bundles.erase(entry->second.user);
        for (const GpuShare& share : shares)
            standing.gpus_used[share.device] = standing.gpus_used[share.device] - share.amount;
        show(node, standing, sum, shares);
        if (standing.attempts.empty() && !places_.contains(node)) standing_.erase(node);
    }
    subtract(in_use_[entry->second.queue], entry->second.total);
    const auto hold = user_holds_.find({entry->second.queue, entry->second.user});
    hold->second.gpus = hold->second.gpus - amount_of(entry->second.total, gpu_key);
    if (--hold->second.runs == 0) user_holds_.erase(hold);
    live_attempts_.erase(id);
    attempts_.erase(entry);
}

// An attempt keeps its seats from its placing to its end.
void ClusterIndex::renew_attempt(const Cluster& cluster, AttemptId id) {
    const auto record = cluster.attempts.find(id);
    const bool lives =
        record != cluster.attempts.end() && !terminal(record->second.state) && cluster.runs.contains(id.run);
    if (lives == live_attempts_.contains(id)) return;
    if (lives)
        hold(cluster, record->second);
    else
        let_go(id);
}

}  // namespace rtrain

#include "scheduler/index/tables/node_table.hpp"

#include <algorithm>

#include "scheduler/model/derived.hpp"

namespace rtrain {

const std::set<AttemptId>& NodeTable::attempts_on(const NodeId& node) const {
    static const std::set<AttemptId> no_attempt;
    const auto entry = standing_.find(node);
    return entry == standing_.end() ? no_attempt : entry->second.attempts;
}

const NodeView* NodeTable::find(const NodeId& id) const {
    const auto entry = places_.find(id);
    return entry == places_.end() ? nullptr : &views_[entry->second];
}

std::size_t NodeTable::place_of(const NodeId& id) const {
    const auto entry = places_.find(id);
    return entry == places_.end() ? views_.size() : entry->second;
}

std::vector<NodeView> NodeTable::views(ReservationMask open) const {
    std::vector<NodeView> some = views_;
    for (std::size_t i = 0; i < some.size(); ++i) {
        const ReservationMask closed = masks_[i] & ~open;
        if (closed == 0) continue;
        OpenRoom room = room_beside(views_[i], holds_[i], closed);
        some[i].free = std::move(room.free);
        some[i].gpus_free = std::move(room.gpus);
    }
    return some;
}

void NodeTable::sum(const NodeView& view, int sign) {
    if (view.state != NodeState::ready) return;
    for (const auto& [name, amount] : view.free) free_[name].ticks += sign * amount.ticks;
    std::int64_t gpus = 0;
    for (const Amount gpu : view.gpus_free) gpus += gpu.ticks;
    if (gpus > 0) free_[std::string(gpu_key)].ticks += sign * gpus;
}

void NodeTable::sum_totals(const NodeView& view, int sign) {
    if (view.state == NodeState::lost) return;
    Resources all = view.total;
    if (!view.gpus_free.empty()) all[std::string(gpu_key)] = units(static_cast<std::int64_t>(view.gpus_free.size()));
    sign > 0 ? add(totals_, all) : subtract(totals_, all);
}

NodeView NodeTable::view_of(const Node& node) {
    const Standing& standing = standing_[node.id];
    NodeView view{.id = node.id,
                  .state = state_for_placement(node),
                  .labels = node.labels,
                  .total = node.total,
                  .free = node.total,
                  .gpus_free = std::vector<Amount>(node.gpus, units(1)),
                  .awaited = is_awaited(node)};
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
    return view;
}

// Returns true if the free amounts of a device have grown.
bool NodeTable::show_gpus(NodeView& view, const Standing& standing, const std::vector<GpuShare>& shares) {
    bool more = false;
    std::int64_t gpus = 0;
    for (const GpuShare& share : shares) {
        if (share.device >= view.gpus_free.size()) continue;
        Amount& device = view.gpus_free[share.device];
        const Amount free = units(1) - std::min(units(1), standing.gpus_used[share.device]);
        gpus += free.ticks - device.ticks;
        more |= free > device;
        device = free;
    }
    if (view.state == NodeState::ready && gpus != 0) free_[std::string(gpu_key)].ticks += gpus;
    return more;
}

// Updates the node's view where its free amounts have changed.
void NodeTable::show(const NodeId& id, const Standing& standing, const Resources& changed,
                     const std::vector<GpuShare>& shares) {
    const auto entry = places_.find(id);
    if (entry == places_.end()) return;
    NodeView& view = views_[entry->second];
    bool more = false;
    for (const auto& [name, ignored] : changed) {
        const Amount total = amount_of(view.total, name);
        if (name == gpu_key || total.ticks == 0) continue;
        const Amount was = amount_of(view.free, name);
        const Amount free = total - std::min(total, amount_of(standing.used, name));
        more |= free > was;
        if (view.state == NodeState::ready) free_[name].ticks += free.ticks - was.ticks;
        if (free.ticks == 0)
            view.free.erase(name);
        else
            view.free.insert_or_assign(name, free);
    }
    more |= show_gpus(view, standing, shares);
    for (const auto& [user, before] : view.zero_bundles) {
        const auto now = standing.zero_bundles.find(user);
        more |= now == standing.zero_bundles.end() || now->second < before;
    }
    view.zero_bundles = standing.zero_bundles;
    if (more) gains_.add(id);
    free_slots_.put_free(view);
}

void NodeTable::count_change(const NodeId& id) { gains_.add(id); }

std::optional<std::size_t> NodeTable::put(NodeView view) {
    const auto known = places_.find(view.id);
    if (known != places_.end()) {
        const NodeView& before = views_[known->second];
        awaited_ -= before.awaited ? 1 : 0;
        sum(before, -1);
        sum_totals(before, -1);
    }
    awaited_ += view.awaited ? 1 : 0;
    sum(view, +1);
    sum_totals(view, +1);
    free_slots_.put(view);
    if (known != places_.end()) {
        views_[known->second] = std::move(view);
        return std::nullopt;
    }
    const auto after =
        std::lower_bound(views_.begin(), views_.end(), view.id,
                         [](const NodeView& other_view, const NodeId& wanted) { return other_view.id < wanted; });
    const auto distance = after - views_.begin();
    const auto place = static_cast<std::size_t>(distance);
    for (auto& [other, at] : places_) at += at >= place ? 1 : 0;
    places_.emplace(view.id, place);
    views_.insert(after, std::move(view));
    masks_.insert(masks_.begin() + distance, ReservationMask{0});
    holds_.insert(holds_.begin() + distance, NodeHolds{});
    return place;
}

void NodeTable::erase(const NodeId& id) {
    const auto known = places_.find(id);
    if (known == places_.end()) return;
    const NodeView& before = views_[known->second];
    awaited_ -= before.awaited ? 1 : 0;
    sum(before, -1);
    sum_totals(before, -1);
    const auto distance = static_cast<std::ptrdiff_t>(known->second);
    views_.erase(views_.begin() + distance);
    masks_.erase(masks_.begin() + distance);
    holds_.erase(holds_.begin() + distance);
    for (auto& [other, place] : places_) place -= place > known->second ? 1 : 0;
    places_.erase(known);
    free_slots_.erase(id);
}

void NodeTable::take(AttemptId id, const Allocation& allocation) {
    for (const auto& [node, what] : allocation.by_node) {
        const auto& [sum, shares] = what;
        Standing& standing = standing_[node];
        standing.attempts.insert(id);
        add(standing.used, sum);
        if (const auto zeros = allocation.zero_bundles.find(node); zeros != allocation.zero_bundles.end())
            standing.zero_bundles[allocation.user] += zeros->second;
        for (const GpuShare& share : shares) {
            if (share.device >= standing.gpus_used.size()) standing.gpus_used.resize(share.device + 1);
            standing.gpus_used[share.device] = standing.gpus_used[share.device] + share.amount;
        }
        show(node, standing, sum, shares);
    }
}

void NodeTable::give_back(AttemptId id, const Allocation& allocation) {
    for (const auto& [node, what] : allocation.by_node) {
        const auto& [sum, shares] = what;
        Standing& standing = standing_.at(node);
        standing.attempts.erase(id);
        subtract(standing.used, sum);
        if (const auto zeros = allocation.zero_bundles.find(node); zeros != allocation.zero_bundles.end())
            if ((standing.zero_bundles[allocation.user] -= zeros->second) == 0)
                standing.zero_bundles.erase(allocation.user);
        for (const GpuShare& share : shares)
            standing.gpus_used[share.device] = standing.gpus_used[share.device] - share.amount;
        show(node, standing, sum, shares);
        if (standing.attempts.empty() && !places_.contains(node)) standing_.erase(node);
    }
}

void NodeTable::put_holds(std::size_t place, NodeHolds holds) {
    if (holds_[place] == holds) return;
    masks_[place] = holds.mask();
    gains_.add(views_[place].id);
    free_slots_.put_holds(views_[place].id, holds);
    holds_[place] = std::move(holds);
}

// ---- the recount

namespace {

Resources without_zeros(Resources resources) {
    std::erase_if(resources, [](const auto& entry) { return entry.second.ticks == 0; });
    return resources;
}

std::vector<Amount> without_zeros(std::vector<Amount> devices) {
    while (!devices.empty() && devices.back().ticks == 0) devices.pop_back();
    return devices;
}

Sums sums_without_zeros(Sums sums) {
    std::erase_if(sums, [](const auto& entry) { return entry.second.ticks == 0; });
    return sums;
}

// Replaces bits by the runs of their reservations. Bits are assigned in the order of reservation, which a recount does
// not have.
using HoldsByRun = std::pair<std::vector<NodeHold>, std::map<std::set<RunId>, Held>>;
std::vector<HoldsByRun> without_bits(const std::vector<NodeHolds>& all) {
    std::vector<HoldsByRun> out;
    for (const NodeHolds& holds : all) {
        auto& [seats, released] = out.emplace_back(holds.seats, std::map<std::set<RunId>, Held>{});
        for (const auto& [mask, held] : holds.released) {
            std::set<RunId> runs;
            for (const NodeHold& hold : holds.seats)
                if ((hold.bit & mask) != 0) runs.insert(hold.run);
            released.emplace(std::move(runs), held);
        }
        for (NodeHold& hold : seats) hold.bit = 0;
    }
    return out;
}

}  // namespace

std::vector<std::string> NodeTable::differences(const NodeTable& recount, const std::vector<NodeView>& naive) const {
    if (views_.size() != recount.views_.size()) return {"the nodes"};
    std::vector<std::string> wrong;
    const auto blame = [&wrong](const NodeId& id, const std::string& what) {
        wrong.push_back(what + " of node " + id.value);
    };
    for (std::size_t i = 0; i < views_.size(); ++i) {
        const NodeView& view = views_[i];
        if (view != recount.views_[i]) blame(view.id, "free amounts");
        if (view.free != without_zeros(naive[i].free) || view.gpus_free != naive[i].gpus_free ||
            view.zero_bundles != naive[i].zero_bundles)
            blame(view.id, "free amounts, counted by attempt,");
        const NodeView* indexed = free_slots_.find(view.id);
        if (indexed == nullptr || *indexed != view) blame(view.id, "free amounts in the index");
        if (attempts_on(view.id) != recount.attempts_on(view.id)) blame(view.id, "attempts");
    }
    for (const auto& [id, standing] : standing_) {
        const auto entry = recount.standing_.find(id);
        const Standing none{};
        const Standing& other = entry == recount.standing_.end() ? none : entry->second;
        if (standing.used != other.used || without_zeros(standing.gpus_used) != without_zeros(other.gpus_used))
            blame(id, "held amounts");
    }
    if (without_bits(holds_) != without_bits(recount.holds_)) wrong.emplace_back("what reservations hold of the nodes");
    if (sums_without_zeros(free_) != sums_without_zeros(recount.free_))
        wrong.emplace_back("free amounts of all ready nodes");
    if (totals_ != recount.totals_) wrong.emplace_back("totals");
    if (awaited_ != recount.awaited_) wrong.emplace_back("awaited nodes");
    return wrong;
}

}  // namespace rtrain

// Answers from the cluster index: whether there is room, on which nodes, and how much of it reservations (holds.cpp)
// leave.
#include "scheduler/placement/room.hpp"

#include <algorithm>
#include <set>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain {
namespace {

// True if `others` spans no more nodes than `answer` (or no fewer, where the gang is to be spread), and no more nodes
// with GPUs for bundles that need none.
bool serves_as_well(const std::vector<NodeView>& nodes, const GangRequest& gang, const PlacementAnswer& others,
                    const PlacementAnswer& answer) {
    if (others.verdict != Verdict::feasible_now) return false;
    const auto nodes_of = [](const Seats& seats) {
        std::set<NodeId> used;
        for (const Seat& seat : seats) used.insert(seat.node);
        return used;
    };
    const std::set<NodeId> used = nodes_of(others.seats), instead_of = nodes_of(answer.seats);
    if (placing::packs(gang.strategy) ? used.size() > instead_of.size() : used.size() < instead_of.size()) return false;
    const bool gpu_less = std::all_of(gang.bundles.begin(), gang.bundles.end(), [](const Bundle& bundle) {
        return amount_of(bundle.demand, gpu_key).ticks == 0;
    });
    if (!gpu_less) return true;
    const auto with_gpus = [&](const std::set<NodeId>& some) {
        return std::count_if(some.begin(), some.end(), [&](const NodeId& id) {
            const auto at = std::lower_bound(nodes.begin(), nodes.end(), id,
                                             [](const NodeView& node, const NodeId& name) { return node.id < name; });
            return !at->gpus_free.empty();
        });
    };
    return with_gpus(used) <= with_gpus(instead_of);
}

}  // namespace

std::size_t ClusterIndex::place_of(const NodeId& node) const {
    const auto entry = places_.find(node);
    return entry == places_.end() ? views_.size() : entry->second;
}

std::vector<NodeView> ClusterIndex::nodes(ReservationMask open) const {
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

// The index of free slots subtracts the seats of closed reservations itself. For other shapes this check is made before
// every node is examined.
bool ClusterIndex::room_for(std::uint32_t shape, ReservationMask open) {
    Shape& wanted = shapes_[shape];
    if (still_full(wanted, open)) return false;
    const auto enough = [&](auto&& free_of) {
        return std::all_of(wanted.total.begin(), wanted.total.end(),
                           [&](const auto& entry) { return entry.second <= free_of(entry.first); });
    };
    const bool together = enough([&](const std::string& name) { return amount_of(free_, name); });
    if (!together || !wanted.unlike || reserved_.empty()) return together;
    return enough([&](const std::string& name) {
        Sum free;
        for (std::size_t i = 0; i < views_.size(); ++i) {
            if (views_[i].state != NodeState::ready) continue;
            const ReservationMask closed = masks_[i] & ~open;
            const OpenRoom rest = closed == 0 ? OpenRoom{} : room_beside(views_[i], holds_[i], closed);
            free = free + amount_of(closed == 0 ? views_[i].free : rest.free, name);
            if (name == gpu_key)
                for (const Amount gpu : closed == 0 ? views_[i].gpus_free : rest.gpus) free = free + gpu;
        }
        return free;
    });
}

// Returns true if an earlier search with this mask, or with a wider one, found no room, and no node that has gained
// room since can take a bundle of the shape.
bool ClusterIndex::still_full(Shape& shape, ReservationMask open) const {
    const auto none_gained = [&](ReservationMask mask, std::uint64_t& seen) {
        for (; seen < gains_.count(); ++seen) {
            const std::size_t at = place_of(gains_[seen]);
            if (at == views_.size() ||
                !placing::takes_one(views_[at], shape.gang, views_[at].free, views_[at].gpus_free))
                continue;
            const ReservationMask closed = masks_[at] & ~mask;
            if (closed == 0) return false;
            const OpenRoom room = room_beside(views_[at], holds_[at], closed);
            if (placing::takes_one(views_[at], shape.gang, room.free, room.gpus)) return false;
        }
        return true;
    };
    return std::any_of(shape.full.begin(), shape.full.end(), [&](auto& known) {
        return (open & ~known.first) == 0 && known.second >= gains_.forgotten() &&
               none_gained(known.first, known.second);
    });
}

bool ClusterIndex::ever(std::uint32_t shape) {
    if (awaits_nodes()) return true;
    const auto known = ever_.find(shape);
    if (known != ever_.end()) return known->second;
    const UniformGang* gang = uniform(shape, every_reservation);
    const Verdict verdict =
        gang != nullptr ? free_slots_.verdict(*gang) : rtrain::place(views_, shapes_[shape].gang).verdict;
    return ever_.emplace(shape, verdict != Verdict::infeasible).first->second;
}

// Returns the handle for the index of free slots. The index forgets shapes that were not requested lately. Shapes that
// it cannot place are offered to it only once.
const UniformGang* ClusterIndex::uniform(std::uint32_t number, ReservationMask open, OnReserved on_reserved) {
    Shape& shape = shapes_[number];
    if (shape.unlike) return nullptr;
    const auto known = shape.uniform.find({open, on_reserved});
    if (known != shape.uniform.end() && free_slots_.knows(known->second)) return &known->second;
    const auto prepared = free_slots_.prepare(shape.gang, open, on_reserved);
    shape.unlike = !prepared;
    if (!prepared) return nullptr;
    if (shape.uniform.size() >= limits::masks_remembered) shape.uniform.clear();
    return &shape.uniform.insert_or_assign({open, on_reserved}, *prepared).first->second;
}

PlacementAnswer ClusterIndex::place_now(std::uint32_t number, ReservationMask open, OnReserved on_reserved) {
    if (const UniformGang* gang = uniform(number, open, on_reserved)) return free_slots_.place(*gang);
    const GangRequest& gang = shapes_[number].gang;
    if (reserved_.empty()) return rtrain::place(views_, gang);
    std::vector<NodeView> some = nodes(open);
    if (on_reserved == OnReserved::nothing)
        for (std::size_t i = 0; i < some.size(); ++i)
            if ((masks_[i] & ~open) != 0) some[i].state = NodeState::quarantined;
    return rtrain::place(some, gang);
}

PlacementAnswer ClusterIndex::place(std::uint32_t number, ReservationMask open) {
    ++searches_;
    PlacementAnswer answer = place_now(number, open, OnReserved::rest);
    if (answer.verdict == Verdict::feasible_now) {
        if (reserved_.empty() || !takes_reserved(answer.seats, open)) return answer;
        PlacementAnswer others = place_now(number, open, OnReserved::nothing);
        return serves_as_well(views_, shapes_[number].gang, others, answer) ? others : answer;
    }
    if (!answer.proved) return answer;
    Shape& shape = shapes_[number];
    if (shape.full.size() >= limits::masks_remembered) shape.full.clear();
    shape.full.insert_or_assign(open, gains_.count());
    return answer;
}

bool ClusterIndex::takes_reserved(const Seats& seats, ReservationMask open) const {
    const NodeId* last = nullptr;
    return std::any_of(seats.begin(), seats.end(), [&](const Seat& seat) {
        if (last != nullptr && *last == seat.node) return false;
        last = &seat.node;
        const std::size_t at = place_of(seat.node);
        return at < views_.size() && (masks_[at] & ~open) != 0;
    });
}

bool ClusterIndex::fits(std::uint32_t shape, ReservationMask open) {
    const UniformGang* gang = uniform(shape, open);
    if (gang != nullptr) return free_slots_.verdict(*gang) == Verdict::feasible_now;
    return place(shape, open).verdict == Verdict::feasible_now;
}

}  // namespace rtrain

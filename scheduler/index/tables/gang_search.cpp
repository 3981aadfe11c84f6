#include "scheduler/index/tables/gang_search.hpp"

#include <algorithm>
#include <set>

#include "scheduler/model/limits.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain {
namespace {

// Returns true if the placement `others` is as good as `answer` for the gang. It spans no more nodes (no fewer, for a
// gang that is spread), and puts bundles without GPUs on no more nodes with GPUs.
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

bool takes_reserved(const NodeTable& nodes, const Seats& seats, ReservationMask open) {
    const NodeId* last = nullptr;
    return std::any_of(seats.begin(), seats.end(), [&](const Seat& seat) {
        if (last != nullptr && *last == seat.node) return false;
        last = &seat.node;
        const std::size_t at = nodes.place_of(seat.node);
        return at < nodes.views().size() && (nodes.mask(at) & ~open) != 0;
    });
}

PlacementAnswer place_now(Shape& shape, NodeTable& nodes, bool has_reservations, ReservationMask open,
                          OnReserved on_reserved) {
    if (const UniformGang* gang = GangSearch::uniform(shape, nodes, open, on_reserved))
        return nodes.free_slots().place(*gang);
    if (!has_reservations) return rtrain::place(nodes.views(), shape.gang);
    std::vector<NodeView> some = nodes.views(open);
    if (on_reserved == OnReserved::nothing)
        for (std::size_t i = 0; i < some.size(); ++i)
            if ((nodes.mask(i) & ~open) != 0) some[i].state = NodeState::quarantined;
    return rtrain::place(some, shape.gang);
}

}  // namespace

// Checks sums of free amounts before every node is examined. The index of free slots needs no such check, because it
// subtracts the seats of closed reservations itself.
bool GangSearch::room_for(Shape& shape, NodeTable& nodes, bool has_reservations, ReservationMask open) const {
    if (still_full(shape, nodes, open)) return false;
    const auto enough = [&](auto&& free_of) {
        return std::all_of(shape.total.begin(), shape.total.end(),
                           [&](const auto& entry) { return entry.second <= free_of(entry.first); });
    };
    const bool together = enough([&](const std::string& name) { return amount_of(nodes.free(), name); });
    if (!together || !shape.unlike || !has_reservations) return together;
    const std::vector<NodeView>& views = nodes.views();
    return enough([&](const std::string& name) {
        Sum free;
        for (std::size_t i = 0; i < views.size(); ++i) {
            if (views[i].state != NodeState::ready) continue;
            const ReservationMask closed = nodes.mask(i) & ~open;
            const OpenRoom rest = closed == 0 ? OpenRoom{} : room_beside(views[i], nodes.holds(i), closed);
            free = free + amount_of(closed == 0 ? views[i].free : rest.free, name);
            if (name == gpu_key)
                for (const Amount gpu : closed == 0 ? views[i].gpus_free : rest.gpus) free = free + gpu;
        }
        return free;
    });
}

bool GangSearch::still_full(Shape& shape, const NodeTable& nodes, ReservationMask open) {
    const Gains& gains = nodes.gains();
    const std::vector<NodeView>& views = nodes.views();
    const auto none_gained = [&](ReservationMask mask, std::uint64_t& seen) {
        for (; seen < gains.count(); ++seen) {
            const std::size_t at = nodes.place_of(gains[seen]);
            if (at == views.size() || !placing::takes_one(views[at], shape.gang, views[at].free, views[at].gpus_free))
                continue;
            const ReservationMask closed = nodes.mask(at) & ~mask;
            if (closed == 0) return false;
            const OpenRoom room = room_beside(views[at], nodes.holds(at), closed);
            if (placing::takes_one(views[at], shape.gang, room.free, room.gpus)) return false;
        }
        return true;
    };
    return std::any_of(shape.full.begin(), shape.full.end(), [&](auto& known) {
        return (open & ~known.first) == 0 && known.second >= gains.forgotten() &&
               none_gained(known.first, known.second);
    });
}

bool GangSearch::ever(std::uint32_t number, Shape& shape, NodeTable& nodes) {
    const auto known = ever_.find(number);
    if (known != ever_.end()) return known->second;
    const UniformGang* gang = uniform(shape, nodes, every_reservation, OnReserved::rest);
    const Verdict verdict =
        gang != nullptr ? nodes.free_slots().verdict(*gang) : rtrain::place(nodes.views(), shape.gang).verdict;
    return ever_.emplace(number, verdict != Verdict::infeasible).first->second;
}

// The index of free slots forgets shapes that were not requested lately. Shapes that it cannot place are offered to it
// only once.
const UniformGang* GangSearch::uniform(Shape& shape, NodeTable& nodes, ReservationMask open, OnReserved on_reserved) {
    if (shape.unlike) return nullptr;
    const auto known = shape.uniform.find({open, on_reserved});
    if (known != shape.uniform.end() && nodes.free_slots().knows(known->second)) return &known->second;
    const auto prepared = nodes.free_slots().prepare(shape.gang, open, on_reserved);
    shape.unlike = !prepared;
    if (!prepared) return nullptr;
    if (shape.uniform.size() >= limits::masks_remembered) shape.uniform.clear();
    return &shape.uniform.insert_or_assign({open, on_reserved}, *prepared).first->second;
}

PlacementAnswer GangSearch::place(Shape& shape, NodeTable& nodes, bool has_reservations, ReservationMask open) {
    ++searches_;
    PlacementAnswer answer = place_now(shape, nodes, has_reservations, open, OnReserved::rest);
    if (answer.verdict == Verdict::feasible_now) {
        if (!has_reservations || !takes_reserved(nodes, answer.seats, open)) return answer;
        PlacementAnswer others = place_now(shape, nodes, has_reservations, open, OnReserved::nothing);
        return serves_as_well(nodes.views(), shape.gang, others, answer) ? others : answer;
    }
    if (!answer.proved) return answer;
    if (shape.full.size() >= limits::masks_remembered) shape.full.clear();
    shape.full.insert_or_assign(open, nodes.gains().count());
    return answer;
}

bool GangSearch::fits(Shape& shape, NodeTable& nodes, bool has_reservations, ReservationMask open) {
    const UniformGang* gang = uniform(shape, nodes, open, OnReserved::rest);
    if (gang != nullptr) return nodes.free_slots().verdict(*gang) == Verdict::feasible_now;
    return place(shape, nodes, has_reservations, open).verdict == Verdict::feasible_now;
}

void GangSearch::forget_ever(const Shapes& shapes, const NodeView* before, const NodeView* now) {
    std::erase_if(ever_, [&](const auto& known) {
        const auto& [number, could] = known;
        const NodeView* node = could ? before : now;
        if (node == nullptr) return false;
        const std::vector<Amount> gpus(node->gpus_free.size(), units(1));
        return placing::takes_one(*node, shapes[number].gang, node->total, gpus);
    });
}

}  // namespace rtrain

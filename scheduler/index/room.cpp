// Questions to the cluster index: is there room, on which nodes, and for whom are nodes reserved (reserved_nodes.hpp).
#include "scheduler/placement/room.hpp"

#include <algorithm>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain {

void ClusterIndex::put_mask(std::size_t node, ReservationMask mask) {
    if ((masks_[node] & ~mask) != 0) gains_.add(views_[node].id);
    masks_[node] = mask;
    free_slots_.put_mask(views_[node].id, mask);
}

std::size_t ClusterIndex::place_of(const NodeId& node) const {
    const auto entry = places_.find(node);
    return entry == places_.end() ? views_.size() : entry->second;
}

void ClusterIndex::move_reservation(const ReservedNodes::Moved& moved) {
    const auto each = [&](const std::vector<NodeId>& some, auto&& mask_now) {
        for (const NodeId& id : some)
            if (const std::size_t node = place_of(id); node < views_.size()) put_mask(node, mask_now(masks_[node]));
    };
    each(moved.gone, [&](ReservationMask before) { return before & ~moved.bit; });
    each(moved.come, [&](ReservationMask before) { return before | moved.bit; });
}

ReservationMask ClusterIndex::reserve_for(RunId run, const std::vector<NodeId>& nodes) {
    const ReservedNodes::Moved moved = reserved_.reserve(run, nodes);
    move_reservation(moved);
    return moved.bit;
}

std::vector<NodeView> ClusterIndex::nodes(ReservationMask open) const {
    std::vector<NodeView> some = views_;
    for (std::size_t i = 0; i < some.size(); ++i)
        if ((masks_[i] & ~open) != 0 && some[i].state == NodeState::ready) some[i].state = NodeState::quarantined;
    return some;
}

// The index leaves out by itself what the mask does; for others that is worth a look, before every node is
// tried.
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
            if (views_[i].state != NodeState::ready || (masks_[i] & ~open) != 0) continue;
            free = free + amount_of(views_[i].free, name);
            if (name == gpu_key)
                for (const Amount gpu : views_[i].gpus_free) free = free + gpu;
        }
        return free;
    });
}

// It found no room with this mask, or a wider one, and no node that has gained since takes a bundle of it.
bool ClusterIndex::still_full(Shape& shape, ReservationMask open) const {
    const auto none_gained = [&](ReservationMask mask, std::uint64_t& seen) {
        for (; seen < gains_.count(); ++seen) {
            const std::size_t at = place_of(gains_[seen]);
            if (at == views_.size() || (masks_[at] & ~mask) != 0) continue;
            if (placing::takes_one(views_[at], shape.gang, views_[at].free, views_[at].gpus_free)) return false;
        }
        return true;
    };
    return std::any_of(shape.full.begin(), shape.full.end(), [&](auto& known) {
        return (open & ~known.first) == 0 && known.second >= gains_.forgotten() &&
               none_gained(known.first, known.second);
    });
}

bool ClusterIndex::ever(std::uint32_t shape) {
    const auto known = ever_.find(shape);
    if (known != ever_.end()) return known->second;
    const UniformGang* gang = uniform(shape, every_reservation);
    const Verdict verdict =
        gang != nullptr ? free_slots_.verdict(*gang) : rtrain::place(views_, shapes_[shape].gang).verdict;
    return ever_.emplace(shape, verdict != Verdict::infeasible).first->second;
}

// The index forgets shapes that nobody asked for lately; those it cannot know are not offered to it twice.
const UniformGang* ClusterIndex::uniform(std::uint32_t number, ReservationMask open) {
    Shape& shape = shapes_[number];
    if (shape.unlike) return nullptr;
    const auto known = shape.uniform.find(open);
    if (known != shape.uniform.end() && free_slots_.knows(known->second)) return &known->second;
    const auto prepared = free_slots_.prepare(shape.gang, open);
    shape.unlike = !prepared;
    if (!prepared) return nullptr;
    if (shape.uniform.size() >= limits::masks_remembered) shape.uniform.clear();
    return &shape.uniform.insert_or_assign(open, *prepared).first->second;
}

PlacementAnswer ClusterIndex::place(std::uint32_t number, ReservationMask open) {
    ++searches_;
    const UniformGang* gang = uniform(number, open);
    Shape& shape = shapes_[number];
    PlacementAnswer answer = gang != nullptr     ? free_slots_.place(*gang)
                             : reserved_.empty() ? rtrain::place(views_, shape.gang)
                                                 : rtrain::place(nodes(open), shape.gang);
    if (answer.verdict == Verdict::feasible_now || !answer.proved) return answer;
    if (shape.full.size() >= limits::masks_remembered) shape.full.clear();
    shape.full.insert_or_assign(open, gains_.count());
    return answer;
}

bool ClusterIndex::fits(std::uint32_t shape, ReservationMask open) {
    const UniformGang* gang = uniform(shape, open);
    if (gang != nullptr) return free_slots_.verdict(*gang) == Verdict::feasible_now;
    return place(shape, open).verdict == Verdict::feasible_now;
}

}  // namespace rtrain

// Questions to the ledger: is there room, on which nodes, and for whom are nodes kept (kept_nodes.hpp).
#include <algorithm>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain {
namespace {}  // namespace

void Ledger::put_behind(std::size_t node, Doors doors) {
    if ((behind_[node] & ~doors) != 0) gains_.add(views_[node].id);
    behind_[node] = doors;
    index_.put_behind(views_[node].id, doors);
}

std::size_t Ledger::place_of(const NodeId& node) const {
    const auto found = places_.find(node);
    return found == places_.end() ? views_.size() : found->second;
}

void Ledger::move_doors(const KeptNodes::Moved& moved) {
    const auto each = [&](const std::vector<NodeId>& some, auto&& doors_now) {
        for (const NodeId& id : some)
            if (const std::size_t node = place_of(id); node < views_.size()) put_behind(node, doors_now(behind_[node]));
    };
    each(moved.gone, [&](Doors before) { return before & ~moved.door; });
    each(moved.come, [&](Doors before) { return before | moved.door; });
}

Doors Ledger::keep_for(RunId run, const std::vector<NodeId>& nodes) {
    const KeptNodes::Moved moved = kept_.keep(run, nodes);
    move_doors(moved);
    return moved.door;
}

std::vector<NodeView> Ledger::nodes(Doors open) const {
    std::vector<NodeView> some = views_;
    for (std::size_t i = 0; i < some.size(); ++i)
        if ((behind_[i] & ~open) != 0 && some[i].state == NodeState::ready) some[i].state = NodeState::quarantined;
    return some;
}

// The index says for itself what stands behind closed doors; for others that is worth a look, before every node is
// tried.
bool Ledger::room_for(std::uint32_t shape, Doors open) {
    Shape& wanted = shapes_[shape];
    if (still_full(wanted, open)) return false;
    const auto enough = [&](auto&& free_of) {
        return std::all_of(wanted.total.begin(), wanted.total.end(),
                           [&](const auto& entry) { return entry.second <= free_of(entry.first); });
    };
    const bool together = enough([&](const std::string& name) { return amount_of(free_, name); });
    if (!together || !wanted.unlike || kept_.empty()) return together;
    return enough([&](const std::string& name) {
        Sum free;
        for (std::size_t i = 0; i < views_.size(); ++i) {
            if (views_[i].state != NodeState::ready || (behind_[i] & ~open) != 0) continue;
            free = free + amount_of(views_[i].free, name);
            if (name == gpu_key)
                for (const Amount gpu : views_[i].gpus_free) free = free + gpu;
        }
        return free;
    });
}

// It found no room behind these doors, or more, and no node that has gained since takes a bundle of it.
bool Ledger::still_full(Shape& shape, Doors open) const {
    const auto none_gained = [&](Doors doors, std::uint64_t& seen) {
        for (; seen < gains_.count(); ++seen) {
            const std::size_t at = place_of(gains_[seen]);
            if (at == views_.size() || (behind_[at] & ~doors) != 0) continue;
            if (placing::takes_one(views_[at], shape.gang, views_[at].free, views_[at].gpus_free)) return false;
        }
        return true;
    };
    return std::any_of(shape.full.begin(), shape.full.end(), [&](auto& known) {
        return (open & ~known.first) == 0 && known.second >= gains_.forgotten() &&
               none_gained(known.first, known.second);
    });
}

bool Ledger::ever(std::uint32_t shape) {
    const auto known = ever_.find(shape);
    if (known != ever_.end()) return known->second;
    const UniformGang* gang = uniform(shape, every_door);
    const Verdict verdict =
        gang != nullptr ? index_.verdict(*gang) : rtrain::place(views_, shapes_[shape].gang).verdict;
    return ever_.emplace(shape, verdict != Verdict::infeasible).first->second;
}

// The index forgets shapes that nobody asked for lately; those it cannot know are not offered to it twice.
const UniformGang* Ledger::uniform(std::uint32_t number, Doors open) {
    Shape& shape = shapes_[number];
    if (shape.unlike) return nullptr;
    const auto known = shape.uniform.find(open);
    if (known != shape.uniform.end() && index_.knows(known->second)) return &known->second;
    const auto made = index_.prepare(shape.gang, open);
    shape.unlike = !made;
    if (!made) return nullptr;
    if (shape.uniform.size() >= limits::doors_remembered) shape.uniform.clear();
    return &shape.uniform.insert_or_assign(open, *made).first->second;
}

PlacementAnswer Ledger::place(std::uint32_t number, Doors open) {
    ++searches_;
    const UniformGang* gang = uniform(number, open);
    Shape& shape = shapes_[number];
    PlacementAnswer answer = gang != nullptr ? index_.place(*gang)
                             : kept_.empty() ? rtrain::place(views_, shape.gang)
                                             : rtrain::place(nodes(open), shape.gang);
    if (answer.verdict == Verdict::feasible_now || !answer.proved) return answer;
    if (shape.full.size() >= limits::doors_remembered) shape.full.clear();
    shape.full.insert_or_assign(open, gains_.count());
    return answer;
}

bool Ledger::fits(std::uint32_t shape, Doors open) {
    const UniformGang* gang = uniform(shape, open);
    if (gang != nullptr) return index_.verdict(*gang) == Verdict::feasible_now;
    return place(shape, open).verdict == Verdict::feasible_now;
}

}  // namespace rtrain

// See kept_nodes.hpp.
#include "scheduler/placement/kept_nodes.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace rtrain {

KeptNodes::Moved KeptNodes::keep(RunId run, const std::vector<NodeId>& nodes) {
    Doors taken = 0;
    for (const auto& [other, kept] : kept_) taken |= kept.door;
    RTRAIN_CHECK(taken != every_door, "more reservations than doors");
    Kept& kept = kept_[run];
    if (kept.door == 0) kept.door = Doors{1} << std::countr_one(taken);
    Moved moved{.door = kept.door, .gone = {}, .come = {}};
    if (kept.nodes == nodes) return moved;
    const std::vector<NodeId>& before = kept.nodes;
    std::set_difference(before.begin(), before.end(), nodes.begin(), nodes.end(), std::back_inserter(moved.gone));
    std::set_difference(nodes.begin(), nodes.end(), before.begin(), before.end(), std::back_inserter(moved.come));
    kept.nodes = nodes;
    if (nodes.empty()) kept_.erase(run);
    return moved;
}

Doors KeptNodes::door_of(RunId run) const {
    const auto found = kept_.find(run);
    return found == kept_.end() ? 0 : found->second.door;
}

Doors KeptNodes::doors_of(const NodeId& node) const {
    Doors doors = 0;
    for (const auto& [run, kept] : kept_)
        if (std::binary_search(kept.nodes.begin(), kept.nodes.end(), node)) doors |= kept.door;
    return doors;
}

std::map<RunId, std::vector<NodeId>> KeptNodes::nodes() const {
    std::map<RunId, std::vector<NodeId>> nodes;
    for (const auto& [run, kept] : kept_) nodes.emplace(run, kept.nodes);
    return nodes;
}

}  // namespace rtrain

#include "scheduler/placement/largest.hpp"

#include <algorithm>
#include <utility>

#include "scheduler/model/derived.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain {

Sized place_largest(const std::vector<NodeView>& nodes, const GangRequest& largest, std::uint32_t workers_min,
                    const Allowed& allowed) {
    const auto try_with = [&](std::uint32_t workers) {
        GangRequest gang = largest;
        gang.bundles.resize(workers);
        if (allowed && workers > workers_min && !allowed(workers))
            return Sized{.workers = workers, .answer = {.verdict = Verdict::pending}};
        return Sized{.workers = workers, .answer = place(nodes, gang)};
    };
    const auto most = static_cast<std::uint32_t>(largest.bundles.size());
    Sized best = try_with(most);
    if (best.answer.verdict == Verdict::feasible_now || workers_min >= most) return best;
    best = try_with(workers_min);
    if (best.answer.verdict != Verdict::feasible_now) return best;
    for (std::uint32_t fits = workers_min, too_many = most; fits + 1 < too_many;) {
        Sized middle = try_with(fits + (too_many - fits) / 2);
        const bool placed = middle.answer.verdict == Verdict::feasible_now;
        (placed ? fits : too_many) = middle.workers;
        if (placed) best = std::move(middle);
    }
    return best;
}

std::uint32_t workers_planned(const std::vector<NodeView>& nodes, const RunSpec& spec) {
    const auto most = static_cast<std::uint32_t>(spec.gang.bundles.size());
    return place_largest(nodes, spec.gang, spec.elastic ? spec.elastic->workers_min : most).workers;
}

PlacementAnswer planned(const std::vector<NodeView>& nodes, const RunSpec& spec) {
    return explain_placement(nodes, gang_of(spec, workers_planned(nodes, spec)));
}

void give_back(std::vector<NodeView>& nodes, const Run& run, const Attempt& attempt) {
    auto node = nodes.end();
    for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank) {
        const Seat& seat = attempt.workers[rank].seat;
        if (seat.node.value.empty()) continue;
        if (node == nodes.end() || node->id != seat.node)  // ranks of a node follow each other
            node = std::find_if(nodes.begin(), nodes.end(), [&](const NodeView& view) { return view.id == seat.node; });
        if (node == nodes.end()) continue;
        const Resources& demand = run.spec.gang.bundles[rank].demand;
        if (zero(demand)) placing::end_zero_bundle(*node, run.user);
        for (const auto& [name, amount] : demand)
            if (name != gpu_key && amount.ticks != 0) add(node->free, {{name, amount}});
        for (const GpuShare& share : seat.gpus)
            if (share.device < node->gpus_free.size())
                node->gpus_free[share.device] = node->gpus_free[share.device] + share.amount;
    }
}

bool core::could_use(const NodeView& node, const GangRequest& gang) {
    return placing::takes_one(node, gang, node.total, std::vector<Amount>(node.gpus_free.size(), units(1)));
}

}  // namespace rtrain

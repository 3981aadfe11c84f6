// The verdict on a gang: valid, feasible now, once other jobs end, or never. See README.md for what the words promise.
#include "scheduler/placement.hpp"

#include <algorithm>

#include "scheduler/placement_room.hpp"

namespace rtrain {
namespace placing {
namespace {

bool among(const std::vector<NodeId>& ids, const NodeId& id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::optional<std::string> invalid_bundle(const Bundle& bundle) {
    for (const auto& [name, amount] : bundle.demand) {
        if (amount.ticks < 0) return name + " is negative";
        if (name == gpu_key && amount > units(1) && amount.ticks % Amount::per_unit != 0)
            return "GPU " + to_text(amount) + ": above 1 only whole GPUs";
    }
    return std::nullopt;
}

const NodeView* find_node(const std::vector<NodeView>& nodes, const NodeId& id) {
    for (const NodeView& node : nodes)
        if (node.id == id) return &node;
    return nullptr;
}

// Candidates under one value of the topology label each, tightest first.
std::vector<std::vector<Candidate>> by_topology(const std::vector<Candidate>& all, const GangRequest& request) {
    std::map<std::string, std::vector<Candidate>> groups;
    for (const Candidate& candidate : all)
        groups[candidate.node->labels.find(*request.topology_label)->second].push_back(candidate);
    std::vector<std::pair<std::uint64_t, std::vector<Candidate>>> ranked;
    for (auto& [value, group] : groups) {
        std::size_t hosts = 0;  // repair: the value that hosts the gang is the only one
        for (const auto& [bundle, node] : request.placed)
            hosts += std::any_of(group.begin(), group.end(), [&](const Candidate& c) { return c.node->id == node; });
        if (hosts != request.placed.size()) continue;
        std::uint64_t room = 0;
        for (const Candidate& c : group)
            room += slots(*c.free, c.gpus, request.bundles.front().demand,
                          static_cast<std::uint32_t>(request.bundles.size()));
        ranked.emplace_back(room, std::move(group));
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::vector<Candidate>> order;
    for (auto& [room, group] : ranked) order.push_back(std::move(group));
    return order;
}

Attempted place_group(const std::vector<Candidate>& candidates, const GangRequest& request) {
    return one_shape(request) ? place_one_shape(candidates, request) : place_mixed(candidates, request);
}

}  // namespace

std::optional<std::string> invalid_because(const std::vector<NodeView>& nodes, const GangRequest& request) {
    if (request.bundles.empty()) return "no bundle is asked for";
    bool any = false;
    for (const Bundle& bundle : request.bundles) {
        if (auto why = invalid_bundle(bundle)) return why;
        any |= !zero(bundle.demand);
    }
    if (!any) return "every bundle is empty";
    for (const auto& [bundle, node] : request.placed) {
        if (bundle >= request.bundles.size())
            return "placed names bundle " + std::to_string(bundle) + ", which is not asked for";
        if (find_node(nodes, node) == nullptr) return "placed names node " + node.value + ", which is not there";
    }
    return std::nullopt;
}

bool allowed(const NodeView& node, const GangRequest& request) {
    return node.state == NodeState::ready && (request.nodes_only.empty() || among(request.nodes_only, node.id)) &&
           !among(request.nodes_excluded, node.id) &&
           (!request.topology_label || node.labels.contains(*request.topology_label));
}

std::vector<Candidate> candidates(const std::vector<NodeView>& nodes, const GangRequest& request, Capacity capacity) {
    std::vector<Candidate> open;
    open.reserve(nodes.size());
    for (const NodeView& node : nodes) {
        if (!allowed(node, request)) continue;
        if (capacity == Capacity::free)
            open.push_back({.node = &node, .free = &node.free, .gpus = node.gpus_free});
        else
            open.push_back(
                {.node = &node, .free = &node.total, .gpus = std::vector<Amount>(node.gpus_free.size(), units(1))});
    }
    return open;
}

Attempted place_on(const std::vector<Candidate>& open, const GangRequest& request) {
    if (!request.topology_label) return place_group(open, request);
    Attempted answer;
    for (const auto& group : by_topology(open, request)) {
        Attempted here = place_group(group, request);
        if (here.seats) return here;
        answer.proved = answer.proved && here.proved;
    }
    return answer;
}

}  // namespace placing

PlacementAnswer place(const std::vector<NodeView>& nodes, const GangRequest& request) {
    using namespace placing;
    PlacementAnswer answer;
    if (invalid_because(nodes, request)) return answer;
    const auto settle = [&](Attempted found, Verdict verdict) {
        if (found.seats) answer.verdict = verdict;
        if (verdict == Verdict::feasible_now && found.seats) answer.seats = *std::move(found.seats);
        answer.proved = answer.proved && found.proved;
        return answer.verdict == verdict;
    };
    const auto open = candidates(nodes, request, Capacity::free);
    answer.verdict = Verdict::infeasible;
    if (!request.nodes_avoided.empty()) {
        auto wanted = open;
        std::erase_if(wanted, [&](const Candidate& c) { return among(request.nodes_avoided, c.node->id); });
        if (settle(place_on(wanted, request), Verdict::feasible_now)) return answer;
        answer.proved = true;
    }
    if (settle(place_on(open, request), Verdict::feasible_now)) return answer;
    settle(place_on(candidates(nodes, request, Capacity::whole), request), Verdict::pending);
    return answer;
}

}  // namespace rtrain

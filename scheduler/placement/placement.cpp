// The verdict about a gang: invalid, feasible now, feasible after other jobs have ended, or never. README.md defines
// these.
#include "scheduler/placement/placement.hpp"

#include <algorithm>
#include <set>

#include "scheduler/placement/room.hpp"

namespace rtrain {
namespace placing {
namespace {

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

// Returns true if the bundles that stay follow the strategy among themselves.
bool placed_well(const GangRequest& request) {
    std::set<NodeId> nodes;
    std::size_t bundles = 0;
    for (const auto& [bundle, node] : request.placed) {
        if (request.strategy != Strategy::strict_pack && zero(request.bundles[bundle].demand)) continue;
        nodes.insert(node);
        ++bundles;
    }
    if (request.strategy == Strategy::strict_pack) return nodes.size() <= 1;
    if (request.strategy == Strategy::strict_spread) return nodes.size() == bundles;
    return true;
}

Attempted place_group(std::vector<Candidate> candidates, const Wanted& wanted) {
    const GangRequest& request = wanted.request;
    if (request.strategy == Strategy::strict_pack) {
        keep_those_for_all_zero_bundles(candidates, wanted);
        if (!request.placed.empty())
            std::erase_if(candidates, [&](const Candidate& c) { return c.node->id != request.placed.begin()->second; });
    }
    Attempted answer{.seats = Seats(request.bundles.size()), .proved = true};
    if (!wanted.missing.empty())
        answer = one_shape(wanted) ? place_one_shape(candidates, wanted) : place_mixed(candidates, wanted);
    if (!answer.seats) return answer;
    for (const auto& [bundle, node] : request.placed) (*answer.seats)[bundle].node = node;
    if (request.strategy == Strategy::strict_pack && !wanted.missing.empty())
        std::erase_if(candidates, [&](const Candidate& candidate) {
            return candidate.node->id != (*answer.seats)[wanted.missing.front()].node;
        });
    if (!seat_zero_bundles(candidates, wanted, *answer.seats)) answer.seats.reset();
    return answer;
}

// Returns the values of the topology label that may hold the gang. If bundles are already placed, that is only the
// value of their nodes.
std::map<std::string, std::vector<Candidate>> by_topology(const std::vector<NodeView>& nodes,
                                                          const std::vector<Candidate>& open,
                                                          const GangRequest& request) {
    std::map<std::string, std::vector<Candidate>> groups;
    for (const Candidate& candidate : open)
        groups[candidate.node->labels.find(*request.topology_label)->second].push_back(candidate);
    if (request.placed.empty()) return groups;
    std::set<std::string> hosting;
    for (const auto& [bundle, id] : request.placed) {
        const Labels& labels = find_node(nodes, id)->labels;
        const auto label = labels.find(*request.topology_label);
        if (label == labels.end()) return {};
        hosting.insert(label->second);
    }
    if (hosting.size() > 1) return {};
    return {{*hosting.begin(), groups[*hosting.begin()]}};
}

std::uint64_t room_in(const std::vector<Candidate>& group, const Wanted& wanted) {
    std::uint64_t room = 0;
    if (wanted.missing.empty()) return room;
    for (const Candidate& c : group)
        if (matches(wanted.shape().selector, c.node->labels))
            room += slots(*c.free, c.gpus, wanted.shape().demand, UINT32_MAX);
    return room;
}

// Returns the best value: as few nodes as PACK can have, as many as SPREAD can, then the least unused room.
Attempted place_in_topology(const std::vector<NodeView>& nodes, const std::vector<Candidate>& open,
                            const Wanted& wanted) {
    Attempted best;
    std::pair<std::int64_t, std::uint64_t> best_score;
    for (const auto& [value, group] : by_topology(nodes, open, wanted.request)) {
        Attempted here = place_group(group, wanted);
        if (!here.seats) {
            if (!best.seats) best.proved = best.proved && here.proved;
            continue;
        }
        const auto used = static_cast<std::int64_t>(nodes_used(wanted.request, *here.seats).size());
        const std::pair score{packs(wanted.request.strategy) ? used : -used, room_in(group, wanted)};
        if (best.seats && best_score <= score) continue;
        best = std::move(here);
        best_score = score;
    }
    return best;
}

Attempted place_on(const std::vector<NodeView>& nodes, const std::vector<Candidate>& open, const GangRequest& request) {
    if (!placed_well(request)) return {};
    const Wanted wanted = wanted_of(request);
    return request.topology_label ? place_in_topology(nodes, open, wanted) : place_group(open, wanted);
}

}  // namespace

std::optional<std::string> invalid_because(const std::vector<NodeView>& nodes, const GangRequest& request) {
    if (request.bundles.empty()) return "no bundle is asked for";
    for (const Bundle& bundle : request.bundles)
        if (auto why = invalid_bundle(bundle)) return why;
    for (const auto& [bundle, node] : request.placed) {
        if (bundle >= request.bundles.size())
            return "placed names bundle " + std::to_string(bundle) + ", which is not asked for";
        if (find_node(nodes, node) == nullptr) return "placed names node " + node.value + ", which is not there";
    }
    return std::nullopt;
}

bool packs(Strategy strategy) { return strategy == Strategy::pack || strategy == Strategy::strict_pack; }

Wanted wanted_of(const GangRequest& request) {
    Wanted wanted{.request = request, .missing = {}, .zeros = {}};
    for (std::uint32_t i = 0; i < request.bundles.size(); ++i)
        if (!request.placed.contains(i)) (zero(request.bundles[i].demand) ? wanted.zeros : wanted.missing).push_back(i);
    return wanted;
}

bool one_shape(const Wanted& wanted) {
    return std::all_of(wanted.missing.begin(), wanted.missing.end(),
                       [&](std::uint32_t index) { return wanted.request.bundles[index] == wanted.shape(); });
}

bool allowed(const NodeView& node, const GangRequest& request) {
    return node.state == NodeState::ready && (request.nodes_only.empty() || request.nodes_only.contains(node.id)) &&
           !request.nodes_excluded.contains(node.id) &&
           (!request.topology_label || node.labels.contains(*request.topology_label));
}

bool takes_one(const NodeView& node, const GangRequest& gang, const Resources& room, const std::vector<Amount>& gpus) {
    if (node.state != NodeState::ready) return false;
    const Bundle* last = nullptr;
    for (const Bundle& bundle : gang.bundles) {
        if (last != nullptr && *last == bundle) continue;
        last = &bundle;
        if (matches(bundle.selector, node.labels) && slots(room, gpus, bundle.demand, 1) > 0)
            return allowed(node, gang);
    }
    return false;
}

std::vector<Candidate> candidates(const std::vector<NodeView>& nodes, const GangRequest& request, Capacity capacity) {
    std::map<NodeId, std::uint32_t> seated;
    for (const auto& [bundle, node] : request.placed) seated[node] += !zero(request.bundles[bundle].demand);
    std::vector<Candidate> open;
    open.reserve(nodes.size());
    for (const NodeView& node : nodes) {
        if (!allowed(node, request)) continue;
        const bool now = capacity == Capacity::free;
        open.push_back({.node = &node,
                        .free = now ? &node.free : &node.total,
                        .gpus = now ? node.gpus_free : std::vector<Amount>(node.gpus_free.size(), units(1)),
                        .seated = 0,
                        .zero_bundles_left = now ? zero_bundles_left(node, request.user) : limits::zero_bundles_most});
        if (seated.empty()) continue;
        const auto host = seated.find(node.id);
        if (host != seated.end()) open.back().seated = host->second;
    }
    const auto by_id = [](const Candidate& a, const Candidate& b) { return a.node->id < b.node->id; };
    if (!std::is_sorted(open.begin(), open.end(), by_id)) std::sort(open.begin(), open.end(), by_id);
    return open;
}

}  // namespace placing

PlacementAnswer place(const std::vector<NodeView>& nodes, const GangRequest& request) {
    using namespace placing;
    PlacementAnswer answer;
    if (invalid_because(nodes, request)) return answer;
    const auto settle = [&](Attempted attempted, Verdict verdict) {
        if (attempted.seats) answer.verdict = verdict;
        if (verdict == Verdict::feasible_now && attempted.seats) answer.seats = *std::move(attempted.seats);
        answer.proved = answer.proved && attempted.proved;
        return answer.verdict == verdict;
    };
    const auto open = candidates(nodes, request, Capacity::free);
    answer.verdict = Verdict::infeasible;
    if (!request.nodes_avoided.empty()) {
        auto wanted = open;
        const std::set<NodeId> avoided(request.nodes_avoided.begin(), request.nodes_avoided.end());
        std::erase_if(wanted, [&](const Candidate& c) { return avoided.contains(c.node->id); });
        if (settle(place_on(nodes, wanted, request), Verdict::feasible_now)) return answer;
        answer.proved = true;
    }
    if (settle(place_on(nodes, open, request), Verdict::feasible_now)) return answer;
    const Attempted ever = place_on(nodes, candidates(nodes, request, Capacity::whole), request);
    answer.verdict =
        // A search that ended early proves nothing, so the verdict is "pending".
        ever.seats || !ever.proved ? Verdict::pending : Verdict::infeasible;
    answer.proved = answer.proved && ever.proved;
    return answer;
}

}  // namespace rtrain

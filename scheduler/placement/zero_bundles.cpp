// Places bundles without resources, and limits how many of one user a node takes.
#include <algorithm>
#include <map>
#include <set>

#include "scheduler/placement/room.hpp"

namespace rtrain::placing {
namespace {

// Returns true if `a` is the better node for a gang of zero bundles alone: nodes without GPUs come first, then the node
// with the most free CPUs. Each zero bundle that the user has there counts as one CPU, so that such workers spread.
bool calmer(const Candidate& a, const Candidate& b) {
    if (a.gpus.empty() != b.gpus.empty()) return a.gpus.empty();
    const auto calm = [](const Candidate& candidate) {
        return amount_of(*candidate.free, cpu_key) + units(candidate.zero_bundles_left);
    };
    return calm(a) > calm(b);
}

// The nodes that the bundles of one selector may use, the least busy first.
struct Homes {
    std::vector<Candidate*> nodes;  // nodes that are not full
    std::size_t next = 0;           // index in `nodes` of the node that takes the next bundle
};

// Returns the node for the next bundle, nullptr if every node is full. PACK fills a node before it takes the next one,
// SPREAD takes the nodes in turn.
Candidate* take_next(Homes& homes, Strategy strategy) {
    while (!homes.nodes.empty()) {
        homes.next %= homes.nodes.size();
        Candidate* home = homes.nodes[homes.next];
        if (home->zero_bundles_left == 0) {
            homes.nodes.erase(homes.nodes.begin() + static_cast<std::ptrdiff_t>(homes.next));
            continue;
        }
        --home->zero_bundles_left;
        if (!packs(strategy)) ++homes.next;
        return home;
    }
    return nullptr;
}

// Exchanges the seats of equal bundles, so that the ranks of one node follow each other.
void keep_together(const Wanted& wanted, Seats& seats) {
    std::map<NodeId, std::size_t> first_use;  // key: the node; value: the order in which the first bundles took it
    for (const std::uint32_t index : wanted.zeros) first_use.emplace(seats[index].node, first_use.size());
    std::vector<NodeId> nodes;
    for (const std::uint32_t index : wanted.zeros) nodes.push_back(seats[index].node);
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](const NodeId& a, const NodeId& b) { return first_use.at(a) < first_use.at(b); });
    for (std::size_t i = 0; i < nodes.size(); ++i) seats[wanted.zeros[i]].node = nodes[i];
}

// Seats a gang that has no other bundles. The time is proportional to nodes times selectors, plus bundles.
bool seat_alone(std::vector<Candidate>& candidates, const Wanted& wanted, Seats& seats) {
    std::stable_sort(candidates.begin(), candidates.end(), calmer);
    std::map<LabelSelector, Homes, decltype(&selector_before)> homes_of(selector_before);
    for (const std::uint32_t index : wanted.zeros) {
        const LabelSelector& selector = wanted.request.bundles[index].selector;
        const auto [homes, fresh] = homes_of.try_emplace(selector);
        for (std::size_t i = 0; fresh && i < candidates.size(); ++i)
            if (matches(selector, candidates[i].node->labels)) homes->second.nodes.push_back(&candidates[i]);
        const Candidate* home = take_next(homes->second, wanted.request.strategy);
        if (home == nullptr) return false;
        seats[index].node = home->node->id;
    }
    if (homes_of.size() == 1) keep_together(wanted, seats);
    return true;
}

// Returns the best node for zero bundle `index` of a gang that has other bundles: the node of the rank before it, then
// of the rank behind it, then of another rank, then any other. Returns nullptr if no node takes the bundle.
Candidate* home_beside(std::vector<Candidate>& candidates, const Wanted& wanted, const std::set<NodeId>& used,
                       const Seats& seats, std::uint32_t index) {
    Candidate* best = nullptr;
    int best_score = -1;
    for (Candidate& candidate : candidates) {
        const NodeId& id = candidate.node->id;
        const bool before = index > 0 && seats[index - 1].node == id;
        const bool behind = index + 1 < seats.size() && seats[index + 1].node == id;
        const int score = before ? 3 : behind ? 2 : used.contains(id) ? 1 : 0;
        if (score <= best_score || candidate.zero_bundles_left == 0) continue;
        if (!matches(wanted.request.bundles[index].selector, candidate.node->labels)) continue;
        best = &candidate;
        best_score = score;
    }
    return best;
}

}  // namespace

std::set<NodeId> nodes_used(const GangRequest& request, const Seats& seats) {
    std::set<NodeId> nodes;
    for (std::size_t i = 0; i < seats.size(); ++i)
        if (!zero(request.bundles[i].demand)) nodes.insert(seats[i].node);
    return nodes;
}

std::uint32_t zero_bundles_left(const NodeView& node, const std::string& user) {
    const auto taken = node.zero_bundles.find(user);
    if (user.empty() || taken == node.zero_bundles.end()) return limits::zero_bundles_most;
    return limits::zero_bundles_most - std::min(taken->second, limits::zero_bundles_most);
}

void end_zero_bundle(NodeView& node, const std::string& user) {
    const auto count = node.zero_bundles.find(user);
    if (count != node.zero_bundles.end() && --count->second == 0) node.zero_bundles.erase(count);
}

bool seat_zero_bundles(std::vector<Candidate>& candidates, const Wanted& wanted, Seats& seats) {
    if (wanted.zeros.empty()) return true;
    const std::set<NodeId> used = nodes_used(wanted.request, seats);
    if (used.empty()) return seat_alone(candidates, wanted, seats);
    for (const std::uint32_t index : wanted.zeros) {
        Candidate* home = home_beside(candidates, wanted, used, seats, index);
        if (home == nullptr) return false;
        --home->zero_bundles_left;
        seats[index].node = home->node->id;
    }
    return true;
}

void keep_those_for_all_zero_bundles(std::vector<Candidate>& candidates, const Wanted& wanted) {
    std::erase_if(candidates, [&](const Candidate& candidate) {
        const bool labels_fit = std::all_of(wanted.zeros.begin(), wanted.zeros.end(), [&](std::uint32_t index) {
            return matches(wanted.request.bundles[index].selector, candidate.node->labels);
        });
        return !labels_fit || candidate.zero_bundles_left < wanted.zeros.size();
    });
}

}  // namespace rtrain::placing

// Places STRICT_PACK and STRICT_SPREAD gangs of unlike bundles, exactly at any size: on one node that takes all, or by
// a bipartite matching of bundles to nodes.
#include <algorithm>

#include "scheduler/placement/room.hpp"

namespace rtrain::placing {
namespace {

// Orders nodes for the gang: nodes with GPUs last if no bundle needs a GPU, then fuller nodes first, then by id.
std::vector<const Candidate*> fuller_first(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    const bool gpu_less = std::all_of(wanted.missing.begin(), wanted.missing.end(), [&](std::uint32_t i) {
        return amount_of(wanted.request.bundles[i].demand, gpu_key).ticks == 0;
    });
    std::vector<const Candidate*> order;
    for (const Candidate& candidate : candidates) order.push_back(&candidate);
    std::stable_sort(order.begin(), order.end(), [&](const Candidate* a, const Candidate* b) {
        if (gpu_less && a->gpus.empty() != b->gpus.empty()) return a->gpus.empty();
        const Amount gpus_a = gpus_free(a->gpus), gpus_b = gpus_free(b->gpus);
        if (gpus_a != gpus_b) return gpus_a < gpus_b;
        return amount_of(*a->free, cpu_key) < amount_of(*b->free, cpu_key);
    });
    return order;
}

constexpr std::uint32_t nobody = UINT32_MAX;

// A matching by augmenting paths, breadth first. `holder[node]` is the bundle on the node.
struct Matching {
    const std::vector<std::vector<std::uint32_t>>& wishes;  // index: the bundle; the nodes that take it
    std::vector<std::uint32_t> holder;
    std::vector<std::uint32_t> seen;  // index: the node; the last round that reached it
    std::vector<std::uint32_t> came_from;

    bool seat(std::uint32_t bundle, std::uint32_t round) {
        std::vector<std::uint32_t> queue{bundle};
        for (std::size_t at = 0; at < queue.size(); ++at) {
            for (const std::uint32_t node : wishes[queue[at]]) {
                if (seen[node] == round) continue;
                seen[node] = round;
                came_from[node] = queue[at];
                if (holder[node] != nobody) {
                    queue.push_back(holder[node]);
                    continue;
                }
                flip(node, bundle);
                return true;
            }
        }
        return false;
    }
    // Along the path back to `bundle`, each bundle takes the node that it had reached.
    void flip(std::uint32_t node, std::uint32_t bundle) {
        while (true) {
            const std::uint32_t newcomer = came_from[node];
            std::uint32_t before = nobody;
            for (const std::uint32_t other : wishes[newcomer])
                if (holder[other] == newcomer) before = other;
            holder[node] = newcomer;
            if (newcomer == bundle) return;
            node = before;
        }
    }
};

}  // namespace

Attempted place_together(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    Attempted answer;
    for (const Candidate* candidate : fuller_first(candidates, wanted)) {
        Shared here = seat_together(*candidate, wanted.request, wanted.missing);
        answer.proved = answer.proved && here.proved;
        if (!here.shares) continue;
        answer.seats.emplace(wanted.request.bundles.size());
        for (std::size_t i = 0; i < wanted.missing.size(); ++i)
            (*answer.seats)[wanted.missing[i]] = {.node = candidate->node->id, .gpus = std::move((*here.shares)[i])};
        answer.proved = true;
        return answer;
    }
    return answer;
}

Attempted place_apart(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    std::vector<std::vector<std::uint32_t>> wishes(wanted.missing.size());
    for (std::size_t i = 0; i < wanted.missing.size(); ++i) {
        const Bundle& bundle = wanted.bundle(i);
        const bool gpu_less = amount_of(bundle.demand, gpu_key).ticks == 0;
        if (i > 0 && bundle == wanted.bundle(i - 1)) {
            wishes[i] = wishes[i - 1];
            continue;
        }
        for (std::uint32_t node = 0; node < candidates.size(); ++node) {
            const Candidate& here = candidates[node];
            if (here.seated == 0 && matches(bundle.selector, here.node->labels) &&
                slots(*here.free, here.gpus, bundle.demand, 1) > 0)
                wishes[i].push_back(node);
        }
        if (gpu_less)
            std::stable_partition(wishes[i].begin(), wishes[i].end(),
                                  [&](std::uint32_t node) { return candidates[node].gpus.empty(); });
    }
    Matching matching{.wishes = wishes,
                      .holder = std::vector<std::uint32_t>(candidates.size(), nobody),
                      .seen = std::vector<std::uint32_t>(candidates.size(), 0),
                      .came_from = std::vector<std::uint32_t>(candidates.size(), nobody)};
    for (std::uint32_t i = 0; i < wishes.size(); ++i)
        if (!matching.seat(i, i + 1)) return {};
    Seats seats(wanted.request.bundles.size());
    for (std::uint32_t node = 0; node < candidates.size(); ++node) {
        if (matching.holder[node] == nobody) continue;
        std::vector<Amount> gpus = candidates[node].gpus;
        const std::size_t nth = matching.holder[node];
        auto shares = take_gpus(gpus, amount_of(wanted.bundle(nth).demand, gpu_key));
        RTRAIN_CHECK(shares.has_value(), "GPUs of " + candidates[node].node->id.value);
        seats[wanted.missing[nth]] = {.node = candidates[node].node->id, .gpus = *std::move(shares)};
    }
    return {.seats = std::move(seats), .proved = true};
}

}  // namespace rtrain::placing

// Places gangs of equal bundles, the usual case. One pass counts the free slots of each node; then nodes are chosen by
// their counts. Exact at any size: with equal bundles, taking the largest counts first uses the fewest nodes.
#include <algorithm>

#include "scheduler/placement/room.hpp"

namespace rtrain::placing {
namespace {

struct Slot {
    const Candidate* at = nullptr;
    std::uint32_t slots = 0;      // free slots for this shape
    std::uint32_t seated = 0;     // bundles that stay on this node (repair)
    std::uint32_t taken = 0;      // bundles that are placed now
    Amount gpus_free, cpus_free;  // how full the node is
    bool off_gpus = false;        // true: the bundles need no GPU, and the node has none

    const NodeId& id() const { return at->node->id; }
};

using Chosen = std::vector<Slot>;  // nodes that take bundles, in the order of ranks

// Orders fuller nodes first, then by id, which keeps other nodes whole.
bool fuller(const Slot& a, const Slot& b) {
    if (a.gpus_free != b.gpus_free) return a.gpus_free < b.gpus_free;
    if (a.cpus_free != b.cpus_free) return a.cpus_free < b.cpus_free;
    return a.id() < b.id();
}

// Orders by many slots first; among equals nodes that already host the gang, then fuller ones.
bool roomier(const Slot& a, const Slot& b) {
    if (a.slots != b.slots) return a.slots > b.slots;
    return fuller(a, b);
}

std::vector<Slot> count_slots(const std::vector<Candidate>& candidates, const Bundle& shape) {
    const bool gpu_less = amount_of(shape.demand, gpu_key).ticks == 0;
    std::vector<Slot> open;
    open.reserve(candidates.size());
    for (const Candidate& candidate : candidates) {
        if (!matches(shape.selector, candidate.node->labels)) continue;
        const Slot slot{.at = &candidate,
                        .slots = slots(*candidate.free, candidate.gpus, shape.demand, UINT32_MAX),
                        .seated = candidate.seated,
                        .taken = 0,
                        .gpus_free = gpus_free(candidate.gpus),
                        .cpus_free = amount_of(*candidate.free, cpu_key),
                        .off_gpus = gpu_less && candidate.gpus.empty()};
        if (slot.slots > 0) open.push_back(slot);
    }
    return open;
}

// Uses the fewest nodes: the largest counts until one node can take the rest; of such nodes the one with the fewest
// slots.
std::optional<Chosen> pack(std::vector<Slot> open, std::uint32_t wanted) {
    std::sort(open.begin(), open.end(), roomier);
    Chosen chosen;
    for (std::size_t first = 0; wanted > 0; ++first) {
        if (first == open.size()) return std::nullopt;
        std::size_t pick = first;
        if (open[first].slots >= wanted) {
            const auto end = std::partition_point(open.begin() + static_cast<std::ptrdiff_t>(first), open.end(),
                                                  [&](const Slot& slot) { return slot.slots >= wanted; });
            const std::uint32_t tightest = (end - 1)->slots;
            while (open[pick].slots != tightest) ++pick;
        }
        open[pick].taken = std::min(wanted, open[pick].slots);
        wanted -= open[pick].taken;
        chosen.push_back(open[pick]);
    }
    return chosen;
}

// Repair with PACK: nodes that host the gang take what they can, then as few others as possible.
std::optional<Chosen> pack_around(const std::vector<Slot>& open, std::uint32_t wanted) {
    Chosen hosts;
    std::vector<Slot> others;
    for (const Slot& slot : open) (slot.seated > 0 ? hosts : others).push_back(slot);
    if (auto chosen = pack(hosts, wanted)) return chosen;
    std::sort(hosts.begin(), hosts.end(), roomier);
    for (Slot& host : hosts) wanted -= host.taken = host.slots;
    auto rest = pack(std::move(others), wanted);
    if (!rest) return std::nullopt;
    hosts.insert(hosts.end(), rest->begin(), rest->end());
    return hosts;
}

// Uses the most nodes, evenly: level by level, the emptiest node of each level first.
std::optional<Chosen> spread(std::vector<Slot> open, std::uint32_t wanted) {
    std::uint64_t sum = 0;
    for (const Slot& slot : open) sum += slot.slots;
    if (sum < wanted) return std::nullopt;
    std::sort(open.begin(), open.end(), [&](const Slot& a, const Slot& b) {
        if (a.off_gpus != b.off_gpus) return a.off_gpus;
        if (a.slots != b.slots) return a.slots > b.slots;
        return a.id() < b.id();
    });
    for (std::uint32_t level = 0; wanted > 0; ++level) {
        for (Slot& slot : open) {
            if (wanted == 0) break;
            if (slot.seated + slot.taken != level || slot.taken == slot.slots) continue;
            ++slot.taken;
            --wanted;
        }
    }
    return open;
}

std::optional<Chosen> strict_spread(std::vector<Slot> open, std::uint32_t wanted) {
    std::erase_if(open, [](const Slot& slot) { return slot.seated > 0; });
    for (Slot& slot : open) slot.slots = 1;
    return spread(std::move(open), wanted);
}

std::optional<Chosen> strict_pack(std::vector<Slot> open, std::uint32_t wanted) {
    std::erase_if(open, [&](const Slot& slot) { return slot.slots < wanted; });
    return open.empty() ? std::nullopt : pack(std::move(open), wanted);
}

std::optional<Chosen> choose(const std::vector<Slot>& open, const GangRequest& request, std::uint32_t wanted) {
    std::vector<Slot> plain;  // Bundles without GPUs stay off GPU nodes if that costs no further node.
    for (const Slot& slot : open)
        if (slot.off_gpus) plain.push_back(slot);
    switch (request.strategy) {
        case Strategy::pack: {
            if (!request.placed.empty()) return pack_around(open, wanted);
            auto chosen = pack(open, wanted);
            if (!chosen || plain.empty() || plain.size() == open.size()) return chosen;
            auto on_plain = pack(plain, wanted);
            return on_plain && on_plain->size() <= chosen->size() ? on_plain : chosen;
        }
        case Strategy::strict_pack: {
            auto on_plain = strict_pack(plain, wanted);
            return on_plain ? on_plain : strict_pack(open, wanted);
        }
        case Strategy::spread:
            return spread(open, wanted);
        case Strategy::strict_spread:
            return strict_spread(open, wanted);
    }
    return std::nullopt;
}

}  // namespace

Attempted place_one_shape(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    const Bundle& shape = wanted.shape();
    const auto count = static_cast<std::uint32_t>(wanted.missing.size());
    auto chosen = choose(count_slots(candidates, shape), wanted.request, count);
    if (!chosen) return {};
    Seats seats(wanted.request.bundles.size());
    std::size_t next = 0;
    for (const Slot& slot : *chosen) {
        std::vector<Amount> gpus = slot.at->gpus;
        for (std::uint32_t i = 0; i < slot.taken; ++i) {
            auto shares = take_gpus(gpus, amount_of(shape.demand, gpu_key));
            RTRAIN_CHECK(shares.has_value(), "GPUs of " + slot.id().value);
            seats[wanted.missing[next++]] = {.node = slot.id(), .gpus = *std::move(shares)};
        }
    }
    return {.seats = std::move(seats), .proved = true};
}

}  // namespace rtrain::placing

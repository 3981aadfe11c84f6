// Places gangs of unlike bundles. Strategy and size decide which method is exact. Large PACK and SPREAD gangs are
// searched depth first, the hardest bundle first, with a budget. If the budget is spent, the answer is marked as
// unproved.
#include <algorithm>
#include <set>

#include "scheduler/model/limits.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::placing {
namespace {

struct Search {
    const GangRequest& request;
    std::vector<std::uint32_t> order;  // bundles to place, hardest first
    std::vector<Room> rooms;
    Seats seats;
    std::int64_t budget;
    bool selectors = false;
};

bool harder(const Bundle& a, const Bundle& b) {
    const Amount gpus_a = amount_of(a.demand, gpu_key), gpus_b = amount_of(b.demand, gpu_key);
    if (gpus_a != gpus_b) return gpus_a > gpus_b;
    if (a.selector.size() != b.selector.size()) return a.selector.size() > b.selector.size();
    const Amount cpus_a = amount_of(a.demand, cpu_key), cpus_b = amount_of(b.demand, cpu_key);
    if (cpus_a != cpus_b) return cpus_a > cpus_b;
    return amount_of(a.demand, memory_key) > amount_of(b.demand, memory_key);
}

// Returns the rooms in the strategy's order of preference for a bundle.
std::vector<std::size_t> preferred(const Search& search, const Bundle& bundle) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < search.rooms.size(); ++i) {
        const Room& room = search.rooms[i];
        if (room.fits(bundle)) order.push_back(i);
    }
    const bool packing = packs(search.request.strategy);
    const bool gpu_less = amount_of(bundle.demand, gpu_key).ticks == 0;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const Room &x = search.rooms[a], &y = search.rooms[b];
        if (packing && (x.seated > 0) != (y.seated > 0)) return x.seated > 0;
        if (!packing && x.seated != y.seated) return x.seated < y.seated;
        if (gpu_less && x.node->gpus_free.empty() != y.node->gpus_free.empty()) return x.node->gpus_free.empty();
        const Amount gx = gpus_free(x.gpus), gy = gpus_free(y.gpus);
        if (gx != gy) return packing ? gx < gy : gx > gy;
        const Amount cx = amount_of(x.free, cpu_key), cy = amount_of(y.free, cpu_key);
        if (cx != cy) return packing ? cx < cy : cx > cy;
        return x.node->id < y.node->id;
    });
    return order;
}

bool alike(const Room& a, const Room& b) { return a.seated == b.seated && a.gpus == b.gpus && a.free == b.free; }

bool seat_from(Search& search, std::size_t at) {
    if (at == search.order.size()) return true;
    const Bundle& bundle = search.request.bundles[search.order[at]];
    search.budget -= static_cast<std::int64_t>(search.rooms.size());
    if (search.budget < 0) return false;
    std::vector<Room> tried;  // A room equal to one that failed fails too.
    for (const std::size_t i : preferred(search, bundle)) {
        const Room before = search.rooms[i];
        if (!search.selectors &&
            std::any_of(tried.begin(), tried.end(), [&](const Room& r) { return alike(r, before); }))
            continue;
        Seat& seat = search.seats[search.order[at]];
        seat = {.node = before.node->id, .gpus = search.rooms[i].take(bundle)};
        if (seat_from(search, at + 1)) return true;
        search.rooms[i] = before;
        if (search.budget < 0) return false;
        tried.push_back(before);
    }
    return false;
}

Search search_over(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    const GangRequest& request = wanted.request;
    Search search{.request = request,
                  .order = wanted.missing,
                  .rooms = {},
                  .seats = Seats(request.bundles.size()),
                  .budget = 0,
                  .selectors = false};
    for (const std::uint32_t i : wanted.missing) search.selectors |= !request.bundles[i].selector.empty();
    std::stable_sort(search.order.begin(), search.order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return harder(request.bundles[a], request.bundles[b]); });
    for (const Candidate& candidate : candidates)
        search.rooms.push_back(
            {.node = candidate.node, .free = *candidate.free, .gpus = candidate.gpus, .seated = candidate.seated});
    search.budget = std::max<std::int64_t>(limits::fit_steps, 2 * static_cast<std::int64_t>(search.order.size()) *
                                                                  static_cast<std::int64_t>(candidates.size()));
    return search;
}

// Returns true if the sum of the demands exceeds what all nodes have together, which refuses without a search.
bool more_than_there_is(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    Sums left;
    Amount gpus;
    for (const Candidate& candidate : candidates) {
        add(left, *candidate.free);
        gpus = gpus + gpus_free(candidate.gpus);
    }
    left[std::string(gpu_key)] = gpus;
    for (std::size_t i = 0; i < wanted.missing.size(); ++i) {
        for (const auto& [name, amount] : wanted.bundle(i).demand) {
            if (amount.ticks == 0) continue;
            Sum& sum = left[name];
            if (sum < amount) return true;
            sum = sum - amount;
        }
    }
    return false;
}

// Exchanges the seats of equal bundles so that their indices follow the nodes, the first bundle's node first.
void make_contiguous(Search& search) {
    std::vector<NodeId> nodes;  // nodes of the gang, in the order of their first appearance
    for (const Seat& seat : search.seats)
        if (!seat.node.value.empty() && std::find(nodes.begin(), nodes.end(), seat.node) == nodes.end())
            nodes.push_back(seat.node);
    const auto place_in_order = [&](const Seat& seat) {
        return std::find(nodes.begin(), nodes.end(), seat.node) - nodes.begin();
    };
    std::set<std::uint32_t> done;
    for (const std::uint32_t first : search.order) {
        if (done.contains(first)) continue;
        std::vector<std::uint32_t> equals;
        for (std::uint32_t i = 0; i < search.request.bundles.size(); ++i)
            if (!search.seats[i].node.value.empty() && search.request.bundles[i] == search.request.bundles[first])
                equals.push_back(i);
        std::vector<Seat> seats;
        for (const std::uint32_t i : equals) seats.push_back(search.seats[i]);
        std::stable_sort(seats.begin(), seats.end(),
                         [&](const Seat& a, const Seat& b) { return place_in_order(a) < place_in_order(b); });
        for (std::size_t k = 0; k < equals.size(); ++k) search.seats[equals[k]] = seats[k];
        done.insert(equals.begin(), equals.end());
    }
}

// Fractions of different sizes on one device are a packing problem, which the search does not enumerate.
bool several_fractions(const GangRequest& request) {
    std::set<Amount> fractions;
    for (const Bundle& bundle : request.bundles) {
        const Amount gpus = amount_of(bundle.demand, gpu_key);
        if (gpus.ticks > 0 && gpus < units(1)) fractions.insert(gpus);
    }
    return fractions.size() > 1;
}

}  // namespace

Attempted place_bounded(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    if (more_than_there_is(candidates, wanted)) return {};
    Search search = search_over(candidates, wanted);
    if (!seat_from(search, 0))
        return {.seats = std::nullopt, .proved = search.budget >= 0 && !several_fractions(wanted.request)};
    make_contiguous(search);
    return {.seats = std::move(search.seats), .proved = true};
}

Attempted place_mixed(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    switch (wanted.request.strategy) {
        case Strategy::strict_pack:
            return place_together(candidates, wanted);
        case Strategy::strict_spread:
            return place_apart(candidates, wanted);
        case Strategy::pack:
        case Strategy::spread:
            if (auto best = place_exactly(candidates, wanted)) return *std::move(best);
            if (auto matched = place_by_labels(candidates, wanted)) return *std::move(matched);
            return place_bounded(candidates, wanted);
    }
    return {};
}

}  // namespace rtrain::placing

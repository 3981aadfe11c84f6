// Gangs of unlike bundles: the hardest bundle first, a depth-first search with a budget. When the budget is spent the
// answer says that nothing is proved.
#include <algorithm>
#include <set>

#include "scheduler/placement_room.hpp"

namespace rtrain::placing {
namespace {

constexpr std::int64_t budget_fits = 200'000;  // looks at a node for a bundle: some tens of milliseconds
constexpr std::size_t small_gang = 8;          // up to here PACK's number of nodes is searched for, not only found

struct Search {
    const GangRequest& request;
    std::vector<std::uint32_t> order;  // bundles to seat, hardest first
    std::vector<Room> rooms;
    Seats seats;
    std::size_t nodes_most;
    std::int64_t budget;
    bool selectors = false;

    std::size_t nodes_used() const {
        return static_cast<std::size_t>(
            std::count_if(rooms.begin(), rooms.end(), [](const Room& r) { return r.seated > 0; }));
    }
};

bool harder(const Bundle& a, const Bundle& b) {
    const Amount gpus_a = amount_of(a.demand, gpu_key), gpus_b = amount_of(b.demand, gpu_key);
    if (gpus_a != gpus_b) return gpus_a > gpus_b;
    if (a.selector.size() != b.selector.size()) return a.selector.size() > b.selector.size();
    const Amount cpus_a = amount_of(a.demand, cpu_key), cpus_b = amount_of(b.demand, cpu_key);
    if (cpus_a != cpus_b) return cpus_a > cpus_b;
    return amount_of(a.demand, memory_key) > amount_of(b.demand, memory_key);
}

Amount gpus_free(const Room& room) {
    Amount sum;
    for (const Amount gpu : room.gpus) sum = sum + gpu;
    return sum;
}

// Rooms in the order the strategy would like them for a bundle.
std::vector<std::size_t> preferred(const Search& search, const Bundle& bundle) {
    std::vector<std::size_t> order;
    const bool full = search.nodes_used() >= search.nodes_most;
    for (std::size_t i = 0; i < search.rooms.size(); ++i) {
        const Room& room = search.rooms[i];
        if (search.request.strategy == Strategy::strict_spread && room.seated > 0) continue;
        if (full && room.seated == 0) continue;
        if (room.fits(bundle)) order.push_back(i);
    }
    const bool packs = search.request.strategy == Strategy::pack || search.request.strategy == Strategy::strict_pack;
    const bool gpu_less = amount_of(bundle.demand, gpu_key).ticks == 0;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const Room &x = search.rooms[a], &y = search.rooms[b];
        if (packs && (x.seated > 0) != (y.seated > 0)) return x.seated > 0;
        if (!packs && x.seated != y.seated) return x.seated < y.seated;
        if (gpu_less && x.node->gpus_free.empty() != y.node->gpus_free.empty()) return x.node->gpus_free.empty();
        const Amount gx = gpus_free(x), gy = gpus_free(y);
        if (gx != gy) return packs ? gx < gy : gx > gy;
        const Amount cx = amount_of(x.free, cpu_key), cy = amount_of(y.free, cpu_key);
        if (cx != cy) return packs ? cx < cy : cx > cy;
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
    std::vector<Room> tried;  // a room like one that failed fails too
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

Search search_over(const std::vector<Candidate>& candidates, const GangRequest& request) {
    Search search{.request = request,
                  .order = {},
                  .rooms = {},
                  .seats = Seats(request.bundles.size()),
                  .nodes_most = candidates.size(),
                  .budget = 0,
                  .selectors = false};
    for (std::uint32_t i = 0; i < request.bundles.size(); ++i) {
        search.selectors |= !request.bundles[i].selector.empty();
        if (!request.placed.contains(i) && !zero(request.bundles[i].demand)) search.order.push_back(i);
    }
    std::stable_sort(search.order.begin(), search.order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return harder(request.bundles[a], request.bundles[b]); });
    for (const Candidate& candidate : candidates) {
        Room room{.node = candidate.node, .free = *candidate.free, .gpus = candidate.gpus, .seated = 0};
        for (const auto& [bundle, node] : request.placed) room.seated += node == candidate.node->id;
        search.rooms.push_back(std::move(room));
    }
    for (const auto& [bundle, node] : request.placed) search.seats[bundle].node = node;
    search.budget = std::max<std::int64_t>(
        budget_fits, 2 * static_cast<std::int64_t>(search.order.size()) * static_cast<std::int64_t>(candidates.size()));
    return search;
}

// Zero bundles reserve nothing and need no node of their own: beside the first bundle, where their labels allow it.
bool seat_zero_bundles(Search& search) {
    const auto first = search.order.empty() ? NodeId{} : search.seats[search.order.front()].node;
    for (std::uint32_t i = 0; i < search.request.bundles.size(); ++i) {
        const Bundle& bundle = search.request.bundles[i];
        if (search.request.placed.contains(i) || !zero(bundle.demand)) continue;
        const Room* home = nullptr;
        for (const Room& room : search.rooms) {
            if (!matches(bundle.selector, room.node->labels)) continue;
            if (home == nullptr || room.node->id == first) home = &room;
        }
        if (home == nullptr) return false;
        search.seats[i].node = home->node->id;
    }
    return true;
}

// Equal bundles change seats so that their indices follow the nodes, the first bundle's node first.
void make_contiguous(Search& search) {
    std::vector<NodeId> nodes;  // by first appearance
    for (const Seat& seat : search.seats)
        if (std::find(nodes.begin(), nodes.end(), seat.node) == nodes.end()) nodes.push_back(seat.node);
    const auto place_in_order = [&](const Seat& seat) {
        return std::find(nodes.begin(), nodes.end(), seat.node) - nodes.begin();
    };
    std::set<std::uint32_t> done;
    for (const std::uint32_t first : search.order) {
        if (done.contains(first)) continue;
        std::vector<std::uint32_t> equals;
        for (std::uint32_t i = 0; i < search.request.bundles.size(); ++i)
            if (!search.request.placed.contains(i) && search.request.bundles[i] == search.request.bundles[first])
                equals.push_back(i);
        std::vector<Seat> seats;
        for (const std::uint32_t i : equals) seats.push_back(search.seats[i]);
        std::stable_sort(seats.begin(), seats.end(),
                         [&](const Seat& a, const Seat& b) { return place_in_order(a) < place_in_order(b); });
        for (std::size_t k = 0; k < equals.size(); ++k) search.seats[equals[k]] = seats[k];
        done.insert(equals.begin(), equals.end());
    }
}

// Fractions of different sizes on one device are a packing problem that the search does not enumerate.
bool several_fractions(const GangRequest& request) {
    std::set<Amount> fractions;
    for (const Bundle& bundle : request.bundles) {
        const Amount gpus = amount_of(bundle.demand, gpu_key);
        if (gpus.ticks > 0 && gpus < units(1)) fractions.insert(gpus);
    }
    return fractions.size() > 1;
}

Attempted settled(Search& search) {
    if (!seat_zero_bundles(search)) return {};
    make_contiguous(search);
    return {.seats = std::move(search.seats), .proved = true};
}

Attempted strict_pack_mixed(const std::vector<Candidate>& candidates, const GangRequest& request) {
    Attempted answer;
    for (const Candidate& candidate : candidates) {
        Search search = search_over({candidate}, request);
        const std::size_t stay = request.placed.size();
        if (stay > 0 && search.rooms.front().seated != stay) continue;
        if (seat_from(search, 0)) {
            Attempted found = settled(search);
            if (found.seats) return found;
        }
        answer.proved = answer.proved && search.budget >= 0;
    }
    answer.proved = answer.proved && !several_fractions(request);
    return answer;
}

}  // namespace

Attempted place_mixed(const std::vector<Candidate>& candidates, const GangRequest& request) {
    if (request.strategy == Strategy::strict_pack) return strict_pack_mixed(candidates, request);
    Search search = search_over(candidates, request);
    if (!seat_from(search, 0))
        return {.seats = std::nullopt, .proved = search.budget >= 0 && !several_fractions(request)};
    if (request.strategy == Strategy::pack && search.order.size() <= small_gang) {
        for (std::size_t nodes = 1; nodes < search.nodes_used(); ++nodes) {
            Search smaller = search_over(candidates, request);
            smaller.nodes_most = nodes;
            if (seat_from(smaller, 0)) return settled(smaller);
            if (smaller.budget < 0) break;
        }
    }
    return settled(search);
}

}  // namespace rtrain::placing

// The part of the cluster index about reservations on each node: their seats, and the amounts of attempts that are
// expected to end before them. For attempts of unknown end, a reservation counts only on those in its record.
#include <algorithm>

#include "scheduler/index/cluster.hpp"

namespace rtrain {

bool ClusterIndex::counts_on_end(AttemptId id, const ReservedSeats& seats) const {
    return seats.from == unknown_end ? seats.after.contains(id) : attempts_.at(id).end <= seats.from;
}

ReservationMask ClusterIndex::reserve_for(RunId run, ReservedSeats seats) {
    const Reservations::Moved moved = reserved_.reserve(run, std::move(seats));
    for (const NodeId& id : moved.nodes)
        if (const std::size_t node = place_of(id); node < views_.size()) renew_holds(node);
    return moved.bit;
}

void ClusterIndex::put_holds(std::size_t node, NodeHolds holds) {
    if (holds_[node] == holds) return;
    masks_[node] = holds.mask();
    gains_.add(views_[node].id);
    free_slots_.put_holds(views_[node].id, holds);
    holds_[node] = std::move(holds);
}

void ClusterIndex::renew_holds(std::size_t node) {
    const NodeId& id = views_[node].id;
    NodeHolds holds;
    for (const auto& [run, entry] : reserved_.entries()) {
        const auto held = entry.seats.nodes.find(id);
        if (held == entry.seats.nodes.end()) continue;
        holds.seats.push_back({.bit = entry.bit,
                               .from = entry.seats.from,
                               .run = run,
                               .whole = entry.seats.whole,
                               .seats = held->second});
        for (const AttemptId on : on_node(id)) {
            ReservationMask& ends_before = attempts_.at(on).ends_before;
            ends_before = counts_on_end(on, entry.seats) ? ends_before | entry.bit : ends_before & ~entry.bit;
        }
    }
    std::sort(holds.seats.begin(), holds.seats.end(),
              [](const NodeHold& a, const NodeHold& b) { return a.from != b.from ? a.from < b.from : a.run < b.run; });
    for (const AttemptId on : on_node(id)) {
        const Allocation& allocation = attempts_.at(on);
        const auto& [amounts, shares] = allocation.by_node.at(id);
        holds.expect(allocation.ends_before & holds.mask(), amounts, shares);
    }
    put_holds(node, std::move(holds));
}

void ClusterIndex::move_release(const Allocation& allocation, ReservationMask from, ReservationMask to) {
    for (const auto& [node_id, what] : allocation.by_node) {
        const std::size_t node = place_of(node_id);
        if (node == views_.size() || (masks_[node] & (from ^ to)) == 0) continue;
        NodeHolds holds = holds_[node];
        holds.release(from & masks_[node], what.first, what.second);
        holds.expect(to & masks_[node], what.first, what.second);
        put_holds(node, std::move(holds));
    }
}

// Updates an attempt that is new, or whose expected end has changed.
void ClusterIndex::renew_releases(AttemptId id) {
    Allocation& allocation = attempts_.at(id);
    const ReservationMask before = allocation.ends_before;
    allocation.ends_before = 0;
    for (const auto& [run, entry] : reserved_.entries())
        if (counts_on_end(id, entry.seats)) allocation.ends_before |= entry.bit;
    move_release(allocation, before, allocation.ends_before);
}

void ClusterIndex::forget_releases(AttemptId id) {
    Allocation& allocation = attempts_.at(id);
    move_release(allocation, allocation.ends_before, 0);
    allocation.ends_before = 0;
}

}  // namespace rtrain

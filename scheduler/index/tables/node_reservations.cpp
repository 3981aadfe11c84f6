#include "scheduler/index/tables/node_reservations.hpp"

#include <algorithm>

namespace rtrain {
namespace {

bool counts_on_end(AttemptId id, const Allocation& allocation, const ReservedSeats& seats) {
    return seats.from == unknown_end ? seats.after.contains(id) : allocation.end <= seats.from;
}

void move_release(NodeTable& nodes, const Allocation& allocation, ReservationMask from, ReservationMask to) {
    for (const auto& [id, what] : allocation.by_node) {
        const std::size_t node = nodes.place_of(id);
        if (node == nodes.views().size() || (nodes.mask(node) & (from ^ to)) == 0) continue;
        NodeHolds holds = nodes.holds(node);
        holds.release(from & nodes.mask(node), what.first, what.second);
        holds.expect(to & nodes.mask(node), what.first, what.second);
        nodes.put_holds(node, std::move(holds));
    }
}

}  // namespace

ReservationMask NodeReservations::reserve(RunId run, ReservedSeats seats, NodeTable& nodes, Allocations& allocations) {
    const Reservations::Moved moved = all_.reserve(run, std::move(seats));
    for (const NodeId& id : moved.nodes)
        if (const std::size_t node = nodes.place_of(id); node < nodes.views().size())
            renew_node(node, nodes, allocations);
    return moved.bit;
}

void NodeReservations::renew_node(std::size_t place, NodeTable& nodes, Allocations& allocations) const {
    const NodeId& id = nodes.views()[place].id;
    NodeHolds holds;
    for (const auto& [run, entry] : all_.entries()) {
        const auto held = entry.seats.nodes.find(id);
        if (held == entry.seats.nodes.end()) continue;
        holds.seats.push_back({.bit = entry.bit,
                               .from = entry.seats.from,
                               .run = run,
                               .whole = entry.seats.whole,
                               .seats = held->second});
        for (const AttemptId on : nodes.attempts_on(id)) {
            Allocation& allocation = allocations.at(on);
            ReservationMask& before = allocation.ends_before;
            before = counts_on_end(on, allocation, entry.seats) ? before | entry.bit : before & ~entry.bit;
        }
    }
    std::sort(holds.seats.begin(), holds.seats.end(),
              [](const NodeHold& a, const NodeHold& b) { return a.from != b.from ? a.from < b.from : a.run < b.run; });
    for (const AttemptId on : nodes.attempts_on(id)) {
        const Allocation& allocation = allocations.at(on);
        const auto& [amounts, shares] = allocation.by_node.at(id);
        holds.expect(allocation.ends_before & holds.mask(), amounts, shares);
    }
    nodes.put_holds(place, std::move(holds));
}

void NodeReservations::renew_releases(AttemptId id, NodeTable& nodes, Allocations& allocations) const {
    Allocation& allocation = allocations.at(id);
    const ReservationMask before = allocation.ends_before;
    allocation.ends_before = 0;
    for (const auto& [run, entry] : all_.entries())
        if (counts_on_end(id, allocation, entry.seats)) allocation.ends_before |= entry.bit;
    move_release(nodes, allocation, before, allocation.ends_before);
}

void NodeReservations::forget_releases(AttemptId id, NodeTable& nodes, Allocations& allocations) const {
    Allocation& allocation = allocations.at(id);
    move_release(nodes, allocation, allocation.ends_before, 0);
    allocation.ends_before = 0;
}

}  // namespace rtrain

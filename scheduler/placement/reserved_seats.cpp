// See reserved_seats.hpp.
#include "scheduler/placement/reserved_seats.hpp"

#include <bit>

namespace rtrain {
namespace {

void add_nodes(std::set<NodeId>& into, const ReservedSeats& seats, const ReservedSeats& unlike) {
    const bool all = seats.from != unlike.from || seats.whole != unlike.whole || seats.after != unlike.after;
    for (const auto& [node, held] : seats.nodes) {
        const auto other = unlike.nodes.find(node);
        if (all || other == unlike.nodes.end() || other->second != held) into.insert(node);
    }
}

}  // namespace

Reservations::Moved Reservations::reserve(RunId run, ReservedSeats seats) {
    ReservationMask taken = 0;
    for (const auto& [other, entry] : entries_) taken |= entry.bit;
    RTRAIN_CHECK(taken != every_reservation, "more reservations than bits of a mask");
    Entry& entry = entries_[run];
    if (entry.bit == 0) entry.bit = ReservationMask{1} << std::countr_one(taken);
    Moved moved{.bit = entry.bit, .nodes = {}};
    if (entry.seats != seats) {
        add_nodes(moved.nodes, entry.seats, seats);
        add_nodes(moved.nodes, seats, entry.seats);
        entry.seats = std::move(seats);
    }
    if (entry.seats.nodes.empty()) entries_.erase(run);
    return moved;
}

ReservationMask Reservations::bit_of(RunId run) const {
    const auto entry = entries_.find(run);
    return entry == entries_.end() ? 0 : entry->second.bit;
}

std::map<RunId, ReservedSeats> Reservations::seats() const {
    std::map<RunId, ReservedSeats> all;
    for (const auto& [run, entry] : entries_) all.emplace(run, entry.seats);
    return all;
}

}  // namespace rtrain

// The seats that reservations hold on one node, and the room for a run that would still run at their begin. Each
// reservation has a bit of a mask. A mask of closed reservations contains those that a run must leave alone.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/model/gang.hpp"
#include "scheduler/model/ids.hpp"

namespace rtrain {

using ReservationMask = std::uint32_t;  // a set of reservations, one bit each
inline constexpr ReservationMask every_reservation = ~ReservationMask{0};

struct Held {                  // amounts on one node
    Resources amounts;         // amounts other than GPUs
    std::vector<Amount> gpus;  // index: the device; value: the held part of it; missing entries are 0
    bool operator==(const Held&) const = default;
};
void add(Held& into, const Resources& demand, const std::vector<GpuShare>& shares);
void add(Held& into, const Held& what);
void subtract(Held& from, const Resources& demand, const std::vector<GpuShare>& shares);  // never below zero

struct NodeHold {  // the seats of one reservation
    ReservationMask bit = 0;
    Time from;           // begin of the reservation; an unknown begin is later than every known one
    RunId run;           // orders reservations that begin together
    bool whole = false;  // true: the reservation holds the whole node, as reservations of earlier versions do
    Held seats;
    bool operator==(const NodeHold&) const = default;
};
inline constexpr Time unknown_begin{INT64_MAX};

struct NodeHolds {
    std::vector<NodeHold> seats;  // seats of each reservation, in the order in which the reservations begin
    // Amounts of attempts, by the reservations that expect these attempts to have ended at their begin.
    std::map<ReservationMask, Held> released;
    bool operator==(const NodeHolds&) const = default;
    ReservationMask mask() const;  // all reservations with seats on this node
    // Removes, or adds, the amounts of an attempt that has ended, or that is expected to end.
    void release(ReservationMask of, const Resources& demand, const std::vector<GpuShare>& shares);
    void expect(ReservationMask of, const Resources& demand, const std::vector<GpuShare>& shares);
};

struct OpenRoom {
    Resources free;            // amounts other than GPUs
    std::vector<Amount> gpus;  // index: the device; value: the free part of it
};
// Returns the room of a run on the node that delays no closed reservation. For each resource and device it is the
// smaller of two amounts: the one free now, and the one free at the reservation's begin, minus its seats and those of
// the closed reservations before it. A reservation of unknown time may begin before the others, so only its own seats
// are subtracted.
OpenRoom room_beside(const NodeView& node, const NodeHolds& holds, ReservationMask closed);
// Returns the room for a run that starts at a later, promised time. Unlike in room_beside, reservations of unknown time
// may have begun by then, so their seats are subtracted too.
OpenRoom room_behind(const NodeView& node, const NodeHolds& holds, ReservationMask closed);
// True if the reservation's seats will be free at its begin, beside the seats of the `others` that begin before it.
bool covered(const NodeView& node, const NodeHolds& holds, ReservationMask bit, ReservationMask others);

}  // namespace rtrain

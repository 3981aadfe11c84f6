// The seats that reservations hold on one node, and what they leave to a run that is still there when they begin. Each
// reservation has a bit of a mask. A mask of closed reservations names those that a run must leave alone.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/model/gang.hpp"
#include "scheduler/model/ids.hpp"

namespace rtrain {

using ReservationMask = std::uint32_t;  // a set of reservations, one bit each
inline constexpr ReservationMask every_reservation = ~ReservationMask{0};

struct Held {                  // amounts of one node
    Resources amounts;         // without GPU
    std::vector<Amount> gpus;  // by device; a device beyond the end has none
    bool operator==(const Held&) const = default;
};
void add(Held& into, const Resources& demand, const std::vector<GpuShare>& shares);
void add(Held& into, const Held& what);
void subtract(Held& from, const Resources& demand, const std::vector<GpuShare>& shares);  // never below zero

struct NodeHold {  // the seats of one reservation
    ReservationMask bit = 0;
    Time from;           // when it begins; an unknown time is the latest of all
    RunId run;           // orders reservations that begin together
    bool whole = false;  // it holds all of the node, as reservations of earlier versions do
    Held seats;
    bool operator==(const NodeHold&) const = default;
};
inline constexpr Time unknown_begin{INT64_MAX};

struct NodeHolds {
    std::vector<NodeHold> seats;  // in the order in which the reservations begin
    // What attempts hold, by the reservations that expect that these attempts have ended when they begin.
    std::map<ReservationMask, Held> released;
    bool operator==(const NodeHolds&) const = default;
    ReservationMask mask() const;  // of all reservations with seats here
    // An attempt has ended, and what it held is free; or it has not.
    void release(ReservationMask of, const Resources& demand, const std::vector<GpuShare>& shares);
    void expect(ReservationMask of, const Resources& demand, const std::vector<GpuShare>& shares);
};

struct OpenRoom {
    Resources free;            // without GPU
    std::vector<Amount> gpus;  // by device
};
// Returns what a run may take of the node without delaying a closed reservation. Of each resource and device this is
// the smaller of what is free now and of what will be free when the reservation begins, less its seats and the seats of
// the closed reservations that begin before it. One of unknown time may begin before the others: its seats alone count
// against what it waits for.
OpenRoom room_beside(const NodeView& node, const NodeHolds& holds, ReservationMask closed);
// The same for a run that starts at another time, which it is to be promised: reservations of unknown time may have
// begun by then, whatever they wait for now.
OpenRoom room_behind(const NodeView& node, const NodeHolds& holds, ReservationMask closed);
// True if the seats of the reservation will be free when it begins, beside those of `others` that begin before it.
bool covered(const NodeView& node, const NodeHolds& holds, ReservationMask bit, ReservationMask others);

}  // namespace rtrain

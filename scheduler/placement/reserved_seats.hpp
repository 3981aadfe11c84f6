// The reserved seats of waiting runs. Each reservation has a bit of the mask, and a placement names the reservations
// that it may ignore. Bits stay the same from one scheduling cycle to the next, so that only a change of a reservation
// touches nodes. Reservations are computed from the records (Run::seats_reserved); the bits are not stored.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "scheduler/placement/node_holds.hpp"

namespace rtrain {

struct ReservedSeats {   // the reservation of one waiting run
    Time from;           // begin of the reservation; an unknown begin is later than every known one
    bool whole = false;  // true: the reservation holds whole nodes
    std::map<NodeId, Held> nodes;
    std::set<AttemptId> after;  // if the begin is unknown: the attempts for whose ends the reservation waits
    bool operator==(const ReservedSeats&) const = default;
};

class Reservations {
  public:
    struct Entry {
        ReservationMask bit = 0;
        ReservedSeats seats;
    };
    struct Moved {
        ReservationMask bit = 0;
        std::set<NodeId> nodes;  // nodes on which the reservation has changed
    };
    // sets the run's reservation; if `seats` has no nodes, drops it and its bit
    Moved reserve(RunId run, ReservedSeats seats);
    ReservationMask bit_of(RunId run) const;  // the bit of the run's reservation; 0: the run has none
    bool empty() const { return entries_.empty(); }
    const std::map<RunId, Entry>& entries() const { return entries_; }
    std::map<RunId, ReservedSeats> seats() const;  // all reservations, without their bits

  private:
    std::map<RunId, Entry> entries_;
};

}  // namespace rtrain

// Which seats are reserved for which waiting run. Each reservation has a bit of the mask, and whoever is being placed
// says which reservations it may ignore. Bits stay from one scheduling cycle to the next, so that only a reservation
// that is made, moved or given up touches nodes. Reservations follow from the records (Run::seats_reserved); the bits
// are of the moment.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "scheduler/placement/node_holds.hpp"

namespace rtrain {

struct ReservedSeats {   // of one waiting run
    Time from;           // when it begins; an unknown time is the latest of all
    bool whole = false;  // it holds all of its nodes
    std::map<NodeId, Held> nodes;
    std::set<AttemptId> after;  // unknown time: the attempts whose ends it waits for
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
        std::set<NodeId> nodes;  // where the reservation holds something else than before
    };
    Moved reserve(RunId run, ReservedSeats seats);  // no nodes: the run gives its reservation and its bit up
    ReservationMask bit_of(RunId run) const;        // 0: it has none
    bool empty() const { return entries_.empty(); }
    const std::map<RunId, Entry>& entries() const { return entries_; }
    std::map<RunId, ReservedSeats> seats() const;  // without bits

  private:
    std::map<RunId, Entry> entries_;
};

}  // namespace rtrain

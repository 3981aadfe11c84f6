// The reservations of waiting runs on each node: their seats, and the amounts of attempts that are expected to end
// before them. For attempts of unknown end, a reservation counts only on those in its record.
// Invariant: an allocation's `ends_before` has the bits of exactly the reservations that count on its end; the holds of
// the node table follow from it.
#pragma once

#include <map>

#include "scheduler/index/tables/allocations.hpp"
#include "scheduler/index/tables/node_table.hpp"
#include "scheduler/placement/reserved_seats.hpp"

namespace rtrain {

class NodeReservations {
  public:
    const Reservations& all() const { return all_; }
    bool empty() const { return all_.empty(); }
    // Sets the run's reservation. Drops it if `seats` has no nodes. Returns the reservation's bit.
    ReservationMask reserve(RunId run, ReservedSeats seats, NodeTable& nodes, Allocations& allocations);
    void renew_node(std::size_t place, NodeTable& nodes, Allocations& allocations) const;
    // Updates an attempt that is new, or whose expected end has changed.
    void renew_releases(AttemptId id, NodeTable& nodes, Allocations& allocations) const;
    void forget_releases(AttemptId id, NodeTable& nodes, Allocations& allocations) const;

  private:
    Reservations all_;
};

}  // namespace rtrain

// Which nodes are reserved for which waiting run. Each reservation has a bit of the mask, and whoever is being placed
// says whose reserved nodes may be counted. Bits stay from one scheduling cycle to the next, so that only a reservation
// that is made, moved or given up touches nodes. What is reserved is in the records (Run::nodes_reserved); the bits are
// of the moment.
#pragma once

#include <map>
#include <vector>

#include "scheduler/placement/free_index.hpp"

namespace rtrain {

class ReservedNodes {
  public:
    struct Moved {  // by one call: nodes that are no longer reserved, and those that are now
        ReservationMask bit = 0;
        std::vector<NodeId> gone, come;
    };
    Moved reserve(RunId run, const std::vector<NodeId>& nodes);  // sorted by id; none: it has no bit any more
    ReservationMask bit_of(RunId run) const;                     // 0: it has none
    ReservationMask mask_of(const NodeId& node) const;
    bool empty() const { return reservations_.empty(); }
    std::map<RunId, std::vector<NodeId>> nodes() const;

  private:
    struct Reserved {
        ReservationMask bit = 0;
        std::vector<NodeId> nodes;
    };
    std::map<RunId, Reserved> reservations_;
};

}  // namespace rtrain

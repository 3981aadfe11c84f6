// The nodes as they would be after some attempts, or parts of them, had ended. Reservations that a mask does not open
// are taken into account. Used inside of the core only.
#pragma once

#include <map>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain::core {

class Outlook {
  public:
    Outlook(const Cluster& cluster, ReservationMask open);
    // adds the amounts of a part of a live attempt; ranks whose seat has no node count as running on
    void give_back(const Attempt& part);
    std::vector<NodeView> nodes() const& { return Outlook(*this).nodes(); }  // sorted by id
    std::vector<NodeView> nodes() &&;

  private:
    const Cluster* cluster_;
    ReservationMask open_;
    std::vector<NodeView> nodes_;             // free amounts without regard to reservations
    std::map<std::size_t, NodeHolds> holds_;  // key: place of a node that has seats of closed reservations
};

}  // namespace rtrain::core

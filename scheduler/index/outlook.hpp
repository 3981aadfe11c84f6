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
    void give_back(const Attempt& part);  // a part of a live attempt; ranks whose seat has no node continue
    std::vector<NodeView> nodes() const& { return Outlook(*this).nodes(); }  // sorted by id
    std::vector<NodeView> nodes() &&;

  private:
    const Cluster* cluster_;
    ReservationMask open_;
    std::vector<NodeView> nodes_;             // without reservations
    std::map<std::size_t, NodeHolds> holds_;  // for the nodes with seats of closed reservations
};

}  // namespace rtrain::core

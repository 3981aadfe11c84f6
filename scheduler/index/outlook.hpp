// The nodes as they would be once some attempts, or parts of them, had ended, beside the reservations that a mask does
// not open. Inside of the core only.
#pragma once

#include <map>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain::core {

class Outlook {
  public:
    Outlook(const Cluster& cluster, ReservationMask open);
    void give_back(const Attempt& part);  // of a live attempt; ranks without a node in their seat go on
    std::vector<NodeView> nodes() const& { return Outlook(*this).nodes(); }  // by id
    std::vector<NodeView> nodes() &&;

  private:
    const Cluster* cluster_;
    ReservationMask open_;
    std::vector<NodeView> nodes_;             // as if nothing were reserved
    std::map<std::size_t, NodeHolds> holds_;  // of the nodes with seats of closed reservations
};

}  // namespace rtrain::core

// Which nodes are kept for which waiting run: they stand behind its door, and whoever is being placed says which doors
// are open to it. Doors stay from pass to pass, so that only a reservation that is made, moved or given up touches
// nodes. What is kept is in the records (Run::nodes_reserved); the doors' numbers are of the moment.
#pragma once

#include <map>
#include <vector>

#include "scheduler/placement/free_index.hpp"

namespace rtrain {

class KeptNodes {
  public:
    struct Moved {  // by one call: nodes that no longer stand behind the door, and those that do now
        Doors door = 0;
        std::vector<NodeId> gone, come;
    };
    Moved keep(RunId run, const std::vector<NodeId>& nodes);  // sorted by id; none: it has no door any more
    Doors door_of(RunId run) const;                           // 0: it has none
    Doors doors_of(const NodeId& node) const;
    bool empty() const { return kept_.empty(); }
    std::map<RunId, std::vector<NodeId>> nodes() const;

  private:
    struct Kept {
        Doors door = 0;
        std::vector<NodeId> nodes;
    };
    std::map<RunId, Kept> kept_;
};

}  // namespace rtrain

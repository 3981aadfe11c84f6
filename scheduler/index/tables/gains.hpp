// The nodes that have gained room, or were opened to more gangs, in the order of these events. If a gang once found no
// room, it finds none until a node of a later entry can take one of its bundles.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/model/ids.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain {

class Gains {
  public:
    // Returns the number of entries ever added.
    std::uint64_t count() const { return forgotten_ + nodes_.size(); }
    // the number of the oldest entries that are no longer stored
    std::uint64_t forgotten() const { return forgotten_; }
    const NodeId& operator[](std::uint64_t number) const { return nodes_[number - forgotten_]; }
    void add(const NodeId& node) {
        if (nodes_.size() == limits::gains_remembered) {
            nodes_.erase(nodes_.begin(), nodes_.begin() + limits::gains_remembered / 2);
            forgotten_ += limits::gains_remembered / 2;
        }
        nodes_.push_back(node);
    }

  private:
    std::vector<NodeId> nodes_;
    std::uint64_t forgotten_ = 0;
};

}  // namespace rtrain

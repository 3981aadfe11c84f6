// The nodes that came to have more room, or stood open to more gangs than before, in the order in which they did. A
// gang that has found no room finds none before one of those that came later takes a bundle of it.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/model/ids.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain {

class Gains {
  public:
    std::uint64_t count() const { return forgotten_ + nodes_.size(); }  // of all that ever came
    std::uint64_t forgotten() const { return forgotten_; }              // the first so many
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

// Answers whether a gang has room, and stores the answers. This class stores the verdicts on the empty cluster. The
// Shape stores refusals, and handles for the index of free slots. Invariant: a stored answer is equal to that of a new
// search. If a node changes, forget_ever removes the answers that the change can make wrong, or the change counts as a
// gain that a refusal is compared with.
#pragma once

#include <cstdint>
#include <map>

#include "scheduler/index/tables/node_table.hpp"
#include "scheduler/index/tables/shapes.hpp"

namespace rtrain {

// `has_reservations`: true if some waiting run has reserved nodes. `open`: the reservations whose seats may be taken.
class GangSearch {
  public:
    // Returns false if there is certainly no room, also if the free amounts of all nodes are too small in sum.
    bool room_for(Shape& shape, NodeTable& nodes, bool has_reservations, ReservationMask open) const;
    // Returns true if the present nodes could hold the gang when empty.
    bool ever(std::uint32_t number, Shape& shape, NodeTable& nodes);
    // Places the gang. Prefers nodes without seats of closed reservations if these serve as well.
    PlacementAnswer place(Shape& shape, NodeTable& nodes, bool has_reservations, ReservationMask open);
    bool fits(Shape& shape, NodeTable& nodes, bool has_reservations, ReservationMask open);  // true: the gang fits now
    // Returns null if the index of free slots cannot answer for the shape.
    static const UniformGang* uniform(Shape& shape, NodeTable& nodes, ReservationMask open, OnReserved on_reserved);
    // Returns true if an earlier search with this mask, or with a wider one, found no room, and no node that has gained
    // room since can take a bundle of the shape.
    static bool still_full(Shape& shape, const NodeTable& nodes, ReservationMask open);

    void forget_shape(std::uint32_t number) { ever_.erase(number); }
    // Removes stored answers of `ever` that the change of a node from `before` to `now` can make wrong. Null: the node
    // is absent.
    void forget_ever(const Shapes& shapes, const NodeView* before, const NodeView* now);
    const std::map<std::uint32_t, bool>& known_ever() const { return ever_; }  // key: the number of the shape
    std::uint64_t searches() const { return searches_; }                       // number of searches of the nodes so far

  private:
    std::map<std::uint32_t, bool> ever_;
    std::uint64_t searches_ = 0;
};

}  // namespace rtrain

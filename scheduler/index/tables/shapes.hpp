// The shapes of the waiting runs' gangs, with a number for each. Equal requests share one shape.
// Invariant: a shape is stored while `waiting` > 0; its number may belong to another request afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/placement/free_index.hpp"

namespace rtrain {

// The request that equal gangs share. One verdict holds for all of them.
struct Shape {
    GangRequest gang;  // includes the nodes that the run avoids
    Sums total;        // sum over all bundles; empty: the gang holds no resource
    std::uint32_t waiting = 0;
    using Asked = std::pair<ReservationMask, OnReserved>;
    std::map<Asked, UniformGang> uniform{};  // handles for shapes that the index of free slots can place
    bool unlike = false;  // true: the index of free slots cannot place this shape, so a search examines every node
    // Key: a mask with which no room was found. Value: Gains::count() at that time.
    std::map<ReservationMask, std::uint64_t> full{};
};

class Shapes {
  public:
    // counts one more waiting run with this request, and returns its shape's number
    std::uint32_t use(const GangRequest& gang);
    void use_again(std::uint32_t number) { ++shapes_[number].waiting; }
    // counts one waiting run less; returns true if no run waits with this request any more
    bool release(std::uint32_t number);
    Shape& operator[](std::uint32_t number) { return shapes_[number]; }
    const Shape& operator[](std::uint32_t number) const { return shapes_[number]; }
    // all shapes, by number; includes entries of unused numbers
    const std::vector<Shape>& all() const { return shapes_; }
    // the shape's key: equal for equal requests
    const std::string& key(std::uint32_t number) const { return keys_[number]; }
    std::optional<std::uint32_t> find(const std::string& key) const;

  private:
    std::vector<Shape> shapes_;
    std::map<std::string, std::uint32_t> numbers_;
    std::vector<std::string> keys_;
    std::vector<std::uint32_t> unused_;
};

}  // namespace rtrain

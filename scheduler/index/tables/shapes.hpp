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
    bool unlike = false;  // true: the index of free slots cannot place this shape, so every node is examined
    // the masks with which no room was found, and Gains::count() at that time
    std::map<ReservationMask, std::uint64_t> full{};
};

class Shapes {
  public:
    std::uint32_t use(const GangRequest& gang);  // counts one more waiting run with this request
    void use_again(std::uint32_t number) { ++shapes_[number].waiting; }
    bool release(std::uint32_t number);  // counts one less; returns true if no run waits with this request any more
    Shape& operator[](std::uint32_t number) { return shapes_[number]; }
    const Shape& operator[](std::uint32_t number) const { return shapes_[number]; }
    const std::vector<Shape>& all() const { return shapes_; }                     // also unused numbers
    const std::string& key(std::uint32_t number) const { return keys_[number]; }  // equal for equal requests
    std::optional<std::uint32_t> find(const std::string& key) const;

  private:
    std::vector<Shape> shapes_;
    std::map<std::string, std::uint32_t> numbers_;
    std::vector<std::string> keys_;
    std::vector<std::uint32_t> unused_;
};

}  // namespace rtrain

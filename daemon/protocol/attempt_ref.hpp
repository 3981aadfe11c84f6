// How messages name an attempt.
#pragma once

#include <compare>
#include <cstdint>

namespace rtrain::protocol {

// An attempt as agents know it. `number` is 0 until claimed.
struct AttemptRef {
    std::uint64_t run = 0;
    std::uint32_t incarnation = 0;
    std::uint32_t number = 0;
    auto operator<=>(const AttemptRef&) const = default;
};

}  // namespace rtrain::protocol

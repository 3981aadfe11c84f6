// The name of an attempt in messages.
#pragma once

#include <compare>
#include <cstdint>

namespace rtrain::protocol {

// An attempt as agents identify it. `number` is 0 until it is claimed.
struct AttemptRef {
    std::uint64_t run = 0;
    std::uint32_t incarnation = 0;
    std::uint32_t number = 0;
    auto operator<=>(const AttemptRef&) const = default;
};

}  // namespace rtrain::protocol

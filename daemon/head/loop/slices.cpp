// See slices.hpp.
#include "daemon/head/loop/slices.hpp"

#include <utility>

#include "daemon/head/base/clock.hpp"

namespace rtrain::head {

void in_slices(net::Background background, std::function<bool()> step) {
    constexpr std::int64_t slice_us = 2'000;
    const std::int64_t until_us = monotonic_us() + slice_us;
    while (step())
        if (monotonic_us() >= until_us)
            return background.post(
                [background, step = std::move(step)]() mutable { in_slices(background, std::move(step)); });
}

}  // namespace rtrain::head

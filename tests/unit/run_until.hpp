// Runs an event loop until something holds.
#pragma once

#include <cstdint>
#include <functional>

#include "daemon/net/loop/loop.hpp"

namespace rtrain::test {

constexpr std::int64_t loop_patience_ms = 60'000;

// Runs the loop until the condition holds. Returns false if it does not hold in time.
inline bool run_until(net::Loop& loop, const std::function<bool()>& condition) {
    bool holds = false;
    net::Loop::TimerId next_look = 0;
    std::function<void()> look = [&] {
        holds = condition();
        if (holds) return loop.stop();
        next_look = loop.after(2, look);
    };
    next_look = loop.after(0, look);
    const auto end = loop.after(loop_patience_ms, [&loop] { loop.stop(); });
    loop.run();
    loop.cancel(next_look);
    loop.cancel(end);
    return holds;
}

}  // namespace rtrain::test

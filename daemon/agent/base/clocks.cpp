#include "daemon/agent/base/clocks.hpp"

#include <ctime>

namespace rtrain::agent {
namespace {

std::int64_t clock_ms(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

std::int64_t boot_ms() { return clock_ms(CLOCK_BOOTTIME); }
std::int64_t wall_ms() { return clock_ms(CLOCK_REALTIME); }

}  // namespace rtrain::agent

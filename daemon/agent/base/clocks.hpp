// The clocks of this machine, in milliseconds.
#pragma once

#include <cstdint>

namespace rtrain::agent {

std::int64_t boot_ms();  // CLOCK_BOOTTIME: goes on while the machine sleeps
std::int64_t wall_ms();  // since 1970

}  // namespace rtrain::agent

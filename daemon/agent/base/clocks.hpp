// The clocks of this machine, in milliseconds, and which boot of it this is.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::agent {

std::int64_t boot_ms();   // CLOCK_BOOTTIME: goes on while the machine sleeps
std::int64_t wall_ms();   // since 1970
std::string this_boot();  // the kernel's id of this boot, new after each restart; empty: the kernel tells none

}  // namespace rtrain::agent

// The clocks of this machine, in milliseconds, and the id of its present boot.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::agent {

std::int64_t boot_ms();   // CLOCK_BOOTTIME, which advances while the machine sleeps
std::int64_t wall_ms();   // since 1970
std::string this_boot();  // the kernel's id of this boot; empty if the kernel provides none

}  // namespace rtrain::agent

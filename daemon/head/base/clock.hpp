// The core's time. It starts at the larger of the last saved time and the wall clock, advances with CLOCK_BOOTTIME, and
// never goes back. Jumps of the wall clock do not change it. Events contain the wall time for people.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/model/ids.hpp"

namespace rtrain::head {

std::int64_t wall_ms();
std::int64_t monotonic_ms();              // monotonic time in ms; leases measure silence by this clock only
std::int64_t monotonic_us();              // monotonic time in us, for measuring durations
std::string iso_time(std::int64_t wall);  // the wall time as text: "2026-01-31T12:00:00.000Z"

class Clock {
  public:
    explicit Clock(Time persisted);
    Time now() const;
    std::int64_t to_wall(Time time) const;  // converts a time of the core to the wall clock

  private:
    std::int64_t start_ms_;
    std::int64_t boot_ms_;
};

}  // namespace rtrain::head

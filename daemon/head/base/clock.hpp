// The core's time: starts at the larger of the last persisted time and the wall clock, is advanced by CLOCK_BOOTTIME,
// and never goes back; a wall clock that jumps changes nothing. Wall time is a field of events, for people.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/model/ids.hpp"

namespace rtrain::head {

std::int64_t wall_ms();
std::int64_t monotonic_ms();              // for leases: silence is measured with this alone
std::int64_t monotonic_us();              // for measuring what something took
std::string iso_time(std::int64_t wall);  // "2026-01-31T12:00:00.000Z"

class Clock {
  public:
    explicit Clock(Time persisted);
    Time now() const;
    std::int64_t to_wall(Time time) const;  // what people's clocks showed then

  private:
    std::int64_t start_ms_;
    std::int64_t boot_ms_;
};

}  // namespace rtrain::head

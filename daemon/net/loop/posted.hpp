// The time at which the present task of this thread was posted to its loop, in microseconds of the monotonic clock.
// Messages that the task handles have waited since then behind other tasks. 0: no posted task runs.
#pragma once

#include <cstdint>

namespace rtrain::net {

std::int64_t posted_us();

}  // namespace rtrain::net

// When the task that this thread runs now was posted to its loop, in microseconds of the monotonic clock: what came of
// it has waited since then, behind other tasks. 0: no posted task runs.
#pragma once

#include <cstdint>

namespace rtrain::net {

std::int64_t posted_us();

}  // namespace rtrain::net

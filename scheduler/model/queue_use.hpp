// The past use of a queue: a mean in which the past loses half of its weight in each half-life.
#pragma once

#include "scheduler/model/queues.hpp"

namespace rtrain::core {

// 2^-(passed / half_life) as a count of 1/2^32.
std::uint64_t decay(Duration passed, Duration half_life);
// Returns the mean at `now`, given that `held` has not changed since `at`.
Resources level_at(const QueueUse& use, Time now, Duration half_life);
QueueUse charged(const QueueUse& before, Resources held, Time now, Duration half_life);

}  // namespace rtrain::core

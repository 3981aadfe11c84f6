// One look at the queue: who of those that wait is placed now.
#pragma once

#include "scheduler/index/change.hpp"

namespace rtrain::core {

void place_waiting(Change& change);

}  // namespace rtrain::core

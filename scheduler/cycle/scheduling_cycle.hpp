// One pass over the queue, which places waiting runs.
#pragma once

#include "scheduler/index/change.hpp"

namespace rtrain::core {

void place_waiting(Change& change);

}  // namespace rtrain::core

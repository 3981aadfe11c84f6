// The clock of a worker's session. The classes of this folder never read it: they receive the time as an argument.
#pragma once

#include <chrono>

namespace rtrain::worker {

using Clock = std::chrono::steady_clock;

}  // namespace rtrain::worker

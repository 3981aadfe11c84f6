// Work that looks at many records, on the loop, without holding it up.
#pragma once

#include <functional>

#include "daemon/net/loop/background.hpp"

namespace rtrain::head {

// Calls `step` until it returns false: at once, and after each 2 ms behind what else has come to the loop. The records
// may change in between. A step is a small part of a slice: one run, one node.
void in_slices(net::Background background, std::function<bool()> step);

}  // namespace rtrain::head

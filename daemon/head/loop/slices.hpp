// Work over many records on the loop, without blocking it.
#pragma once

#include <functional>

#include "daemon/net/loop/background.hpp"

namespace rtrain::head {

// Calls `step` until it returns false: at once, then in slices of 2 ms between the loop's other tasks. The records may
// change in between. A step is a small part of a slice: one run, one node.
void in_slices(net::Background background, std::function<bool()> step);

}  // namespace rtrain::head

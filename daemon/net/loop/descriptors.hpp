// How many connections a process may hold: its file descriptors.
#pragma once

#include <cstdint>

namespace rtrain::net {

// Raises the soft limit to the hard one and returns it. For daemons that hold many connections and start no programs of
// others, which would inherit it.
std::uint64_t raise_descriptor_limit();

}  // namespace rtrain::net

// The number of connections that a process may hold: its limit of file descriptors.
#pragma once

#include <cstdint>

namespace rtrain::net {

// Raises the soft limit to the hard one and returns it. For daemons with many connections that start no programs of
// users, which would inherit the limit.
std::uint64_t raise_descriptor_limit();

}  // namespace rtrain::net

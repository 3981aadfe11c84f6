// Finds the process that owns a listening TCP port: read from /proc, for the message about a busy port.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::net {

// Returns "rtrain (pid 123)". Returns an empty text if /proc does not show it, for example for another user's process.
std::string port_owner(std::uint16_t port);

}  // namespace rtrain::net

// Who listens on a TCP port: read from /proc, for the message of a busy port.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::net {

// "rtrain (pid 123)"; empty when /proc does not tell, as for another user's process.
std::string port_owner(std::uint16_t port);

}  // namespace rtrain::net

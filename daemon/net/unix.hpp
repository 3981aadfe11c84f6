// What only sockets of a Unix-socket server can do.
#pragma once

#include <string>

#include "daemon/net/server.hpp"

namespace rtrain::net {

// Sends `text` with a descriptor, which the other process gets a copy of. False, and nothing was sent: others wait
// before it, or this is no socket of a UnixServer.
bool send_with_descriptor(Socket& socket, const std::string& text, int descriptor);

}  // namespace rtrain::net

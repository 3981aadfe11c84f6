// The user of the process at the other end of a loopback connection.
#pragma once

namespace rtrain::cmd {

// Returns whether the socket at the other end of this connection of IPv4 is open and belongs to this user, or to root.
// The kernel's tables name each socket's user. The other end may be a socket of IPv6. False where no table lists it.
bool is_own_peer(int socket);

}  // namespace rtrain::cmd

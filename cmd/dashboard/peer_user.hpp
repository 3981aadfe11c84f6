// Finds the user of the process at the other end of a loopback connection.
#pragma once

namespace rtrain::cmd {

// Returns true if the socket at the other end of this IPv4 connection is open and belongs to this user or to root. The
// kernel's tables contain each socket's user. The other end may be an IPv6 socket. Returns false if no table contains
// it.
bool is_own_peer(int socket);

}  // namespace rtrain::cmd

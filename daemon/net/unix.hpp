// What only sockets of a Unix-socket server can do.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/net/server.hpp"

namespace rtrain::net {

// Bounds of what the peers of a UnixServer may hold. A peer is a stranger until `introduced`. Over a bound, the oldest
// one of the user who holds most is ended: what one user holds never keeps another user's peers out.
struct UnixLimits {
    std::size_t stranger_bytes = std::size_t{64} << 10;  // of a stranger's message
    std::size_t strangers_of_user = 64, strangers = 512;
    std::int64_t stranger_ms = 10'000;
    // Bytes of messages that have begun to come and are not whole; what is below `stranger_bytes` does not count.
    std::size_t unfinished_of_user = std::size_t{128} << 20, unfinished = std::size_t{256} << 20;
    std::int64_t unfinished_ms = 60'000;  // from a message's first byte to its last
    std::int64_t close_ms = 10'000;       // for a peer that is to be closed to take what is sent to it
};

// What UnixServer::listen does, with other bounds.
Result<std::unique_ptr<UnixServer>> listen_unix(Loop& loop, std::string path,
                                                std::function<SocketEvents(std::shared_ptr<Socket>)> accepted,
                                                UnixLimits limits);

// The peer has said who it is: it is no stranger any more.
void introduced(Socket& socket);

// The process and the user that connected, as the kernel says. Process 0 and user -1: unknown, or no socket of a
// UnixServer. The process may have ended, or handed its socket on.
struct UnixPeer {
    std::int64_t pid = 0, uid = -1;
};
UnixPeer unix_peer(const Socket& socket);

// Sends `text` with a descriptor, which the other process gets a copy of. False, and nothing was sent: others wait
// before it, or this is no socket of a UnixServer.
bool send_with_descriptor(Socket& socket, const std::string& text, int descriptor);

}  // namespace rtrain::net

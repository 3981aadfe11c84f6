// Functions for sockets of a Unix-socket server only.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/net/server.hpp"

namespace rtrain::net {

// Bounds of what the peers of a UnixServer may hold. A peer is a stranger until `introduced`. If a bound is exceeded,
// the oldest connection of the user with the largest share is closed, so that one user cannot keep other users' peers
// out.
struct UnixLimits {
    std::size_t stranger_bytes = std::size_t{64} << 10;  // bytes of a stranger's message
    std::size_t strangers_of_user = 64, strangers = 512;
    std::int64_t stranger_ms = 10'000;
    // Bytes of incomplete messages, without messages below `stranger_bytes`.
    std::size_t unfinished_of_user = std::size_t{128} << 20, unfinished = std::size_t{256} << 20;
    std::int64_t unfinished_ms = 60'000;  // from a message's first byte to its last
    std::int64_t close_ms = 10'000;       // time for a peer that is to be closed to read the bytes that were sent to it
};

// Does the same as UnixServer::listen, with other bounds.
Result<std::unique_ptr<UnixServer>> listen_unix(Loop& loop, std::string path,
                                                std::function<SocketEvents(std::shared_ptr<Socket>)> accepted,
                                                UnixLimits limits);

// The peer has authenticated: it is no longer a stranger.
void introduced(Socket& socket);

// The process and the user of the peer, as the kernel reports them. Process 0 and user -1: unknown, or no socket of a
// UnixServer. The process may have ended, or passed its socket on.
struct UnixPeer {
    std::int64_t pid = 0, uid = -1;
};
UnixPeer unix_peer(const Socket& socket);

// Sends `text` with a descriptor, which the kernel duplicates for the other process. Returns false and sends nothing if
// other bytes wait to be sent, or if this is no socket of a UnixServer.
bool send_with_descriptor(Socket& socket, const std::string& text, int descriptor);

}  // namespace rtrain::net

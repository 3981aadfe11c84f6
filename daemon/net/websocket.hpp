// A WebSocket over a TLS connection, on either side, and its handle on the loop. Beast reads and writes frames on the
// thread of the connection's io_context. Texts and the end are posted to the loop in order.
#pragma once

#include <memory>
#include <string>

#include "daemon/net/http/http_parser.hpp"
#include "daemon/net/loop/asio.hpp"
#include "daemon/net/server.hpp"
#include "daemon/net/server_state.hpp"
#include "daemon/net/wire.hpp"

namespace rtrain::net {

class WebSocket;

struct SocketRole {
    Loop& loop;
    std::shared_ptr<bool> alive;  // used by the loop's thread; false: events have no receiver any more
    Peer peer;
    IoThread* io_thread = nullptr;   // for a server's socket
    PlacePools* readers = nullptr;   // threads that parse long texts; null: the connection's own thread does
    std::shared_ptr<void> keeper{};  // the server state; the handle owns it, so that the io_context exists for posting
};

// A pair is made on the loop. It gets its connection later, on the connection's own thread.
struct SocketPair {
    std::shared_ptr<Socket> handle;
    std::shared_ptr<WebSocket> socket;
};
SocketPair make_socket(asio::io_context& io, SocketRole role, SocketEvents events);

// Both take the TLS stream out of the wire and begin to read after the handshake.
void accept_socket(const std::shared_ptr<WebSocket>& socket, Wire& wire, const MessageHead& head,
                   std::shared_ptr<void> ticket);
struct SocketRefusal {
    int status = 0;  // status of the peer's answer; 0: no answer
    std::string why;
};
void dial_upgrade(const std::shared_ptr<WebSocket>& socket, Wire& wire, const std::string& host,
                  const std::string& target, const std::string& bearer,
                  std::function<void(std::optional<SocketRefusal>)> done);
void drop_socket(const std::shared_ptr<WebSocket>& socket, std::string why);  // for a socket that never began

}  // namespace rtrain::net

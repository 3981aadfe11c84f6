// HTTPS and WebSocket clients. Blocking calls are for the command line and for offloaded work; the WebSocket lives on a
// loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/net/server.hpp"

namespace rtrain::net {

struct Endpoint {
    std::string host;
    std::uint16_t port = 7433;
    std::string ca;                             // PEM: the only trusted authority
    std::string ca_fingerprint;                 // for joining: SHA-256 of the CA's DER as hex; used if `ca` is empty
    std::string expected_name = "rtrain-head";  // name in the peer's certificate, independent of the address
    std::string certificate, private_key;       // PEM: the client's own identity for mutual TLS; may be empty
    std::string bearer;                         // token; may be empty
    std::int64_t connect_timeout_ms = 5'000;
    std::int64_t answer_timeout_ms = 60'000;
};

struct Call {
    std::string method = "GET";
    std::string target;  // path and query, encoded
    std::string body;
    std::string body_file;  // path of a file that is streamed instead of `body`
    std::uint64_t body_file_offset = 0;
    std::map<std::string, std::string> headers;              // lower-case names; "host" replaces the endpoint's host
    std::string save_to;                                     // path of a file for the answer's body; empty: memory
    std::function<void(const Response& head)> on_head = {};  // called with status and headers before the body arrives
    // For streams (SSE, followed logs): called with each piece. A return value of false ends the call.
    std::function<bool(std::string_view piece)> on_piece;
    std::function<void(std::uint64_t sent, std::uint64_t total)> on_progress;
};

// One connection, kept alive over calls. Errors: unreachable (refused, timed out, reset), unauthorised (TLS refused:
// which certificate, why), io. An HTTP status of 400 or more is not an Error here: the caller reads Response.
class Client {
  public:
    explicit Client(Endpoint endpoint);
    ~Client();
    Client(Client&&) noexcept;
    Result<Response> call(const Call& call);
    // Ends the running call with an Error. May be called from another thread or from a signal handler's loop.
    void abort();

  private:
    struct Body;
    std::unique_ptr<Body> body_;
};

// Connects and upgrades, then calls `events` on the loop. `connected` is called once, with the socket or an Error.
void dial_socket(Loop& loop, Endpoint endpoint, std::string target, SocketEvents events,
                 std::function<void(Result<std::shared_ptr<Socket>>)> connected);

}  // namespace rtrain::net

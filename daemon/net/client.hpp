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
    std::string ca;                             // PEM: the only authority trusted
    std::string ca_fingerprint;                 // joining: sha256 hex of the CA's DER; used when `ca` is empty
    std::string expected_name = "rtrain-head";  // name in the peer's certificate, whatever address is dialled
    std::string certificate, private_key;       // PEM: our own, for mutual TLS; may be empty
    std::string bearer;                         // token; may be empty
    std::int64_t connect_timeout_ms = 5'000;
    std::int64_t answer_timeout_ms = 60'000;
};

struct Call {
    std::string method = "GET";
    std::string target;  // path and query, encoded
    std::string body;
    std::string body_file;  // streamed instead of body
    std::uint64_t body_file_offset = 0;
    std::map<std::string, std::string> headers;  // lower-case names; "host" takes the place of the endpoint's
    std::string save_to;                         // write the answer's body there instead of memory
    std::function<void(const Response& head)> on_head = {};  // status and headers of the answer, before its body
    // Streams (SSE, followed logs): called with each piece; false ends the call.
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
    void abort();  // from another thread or a signal handler's loop: the running call ends with an Error

  private:
    struct Body;
    std::unique_ptr<Body> body_;
};

// Dials, upgrades, then calls events on the loop. `connected` is called once, with the socket or the reason.
void dial_socket(Loop& loop, Endpoint endpoint, std::string target, SocketEvents events,
                 std::function<void(Result<std::shared_ptr<Socket>>)> connected);

}  // namespace rtrain::net

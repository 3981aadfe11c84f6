// HTTPS server: requests, event streams, streamed uploads, WebSockets. TLS runs on a small pool; every callback given
// here is called on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "daemon/net/connection_table.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::net {

struct TlsIdentity {                // PEM texts
    std::string certificate_chain;  // the leaf first, then the CA (a joining node checks its fingerprint)
    std::string private_key;
    std::string ca;  // authority of the peers' certificates; empty: none is requested
};

struct Peer {
    std::string address;             // "127.0.0.1:41234"
    std::string certificate_name;    // common name of the verified certificate; empty: none was presented
    std::string certificate_serial;  // its serial number, upper-case hex
};

struct Request {
    std::string method;
    std::string path;                                         // decoded, without the query
    std::map<std::string, std::string, std::less<>> query;    // decoded
    std::map<std::string, std::string, std::less<>> headers;  // lower-case names
    std::string body;                                         // empty for streamed uploads
    std::string body_file;                  // streamed uploads: path of the body, which the handler moves or removes
    std::shared_ptr<const void> held = {};  // Admission::held, until the request is answered
    Peer peer;
    std::string header(std::string_view name) const;
};

class OpenFile {  // An open file of an answer; closed by its last owner.
  public:
    explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
    ~OpenFile();
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    int descriptor() const { return descriptor_; }

  private:
    int descriptor_;
};

struct MadePiece {
    std::string bytes;
    bool last = false;
};

struct Response {
    int status = 200;
    std::string body;
    std::string content_type = "application/json";
    std::map<std::string, std::string> headers;
    std::string file;  // not empty: the body is this file, streamed from `file_offset`
    std::uint64_t file_offset = 0;
    std::shared_ptr<OpenFile> opened = {};  // used instead of `file`, so that the checked file is the one that is sent
    std::string place =
        // The place of `opened`, or that `pieces` reads from. A place that hangs delays no answer from another one.
        {};
    // Not empty: the body is generated while it is sent. Called for each piece once the one before is on its way, and
    // destroyed, on a thread for files at `place`. An empty piece means that there is none yet. nullopt means a
    // failure, and the answer is cut off.
    std::function<std::optional<MadePiece>()> pieces = {};
    // Called before each piece of a file, or of a generated body, on the connection's own thread. false: the answer is
    // cut off.
    std::function<bool()> permitted = {};
};

// An answer without a fixed end: server-sent events, followed logs. A reader that is more than 4 MiB behind is cut off.
class Stream {
  public:
    virtual ~Stream() = default;
    virtual bool write(std::string chunk) = 0;  // false: the peer has closed the connection, or was cut off
    virtual void close() = 0;                   // sends the waiting bytes first
    virtual void cut() = 0;  // drops the waiting bytes; cuts off a peer that does not read the sent ones
    virtual void on_closed(std::function<void()>) = 0;
    virtual std::size_t waiting() const = 0;  // bytes that the peer has not taken yet
};

class Socket {  // One WebSocket, on either side.
  public:
    virtual ~Socket() = default;
    virtual bool send(std::string text) = 0;  // false: closed, or more than 64 MiB wait to be sent
    virtual std::size_t waiting() const = 0;  // bytes, to be sent
    virtual void close(std::string reason) = 0;
    virtual const Peer& peer() const = 0;
};
struct SocketEvents {
    std::function<void(std::string text)> on_text;
    std::function<void(std::string why)> on_closed;  // called once, at the end
    // Called instead of on_text if parsing a text takes time. Runs on the connection's own thread, or beside it for a
    // text above 64 KiB, so it must not use the loop's state. The loop runs the task that it returns.
    std::function<Loop::Task(std::string text)> read = {};
};

// Answers one request once. It may be stored and used later. If it is destroyed unused, the answer is 500.
class Responder {
  public:
    virtual ~Responder() = default;
    virtual void send(Response response) = 0;
    virtual std::shared_ptr<Stream> stream(std::string content_type) = 0;
    virtual std::shared_ptr<Socket> accept_socket(SocketEvents events) = 0;  // for a WebSocket upgrade only
    virtual bool wants_socket() const = 0;
};
using Handler = std::function<void(Request, std::shared_ptr<Responder>)>;

// The decision about a request, made from its head before its body is read.
struct Admission {
    std::string caller = {};     // unique name of a user or a node; empty: the caller remains a stranger
    Room room = Room::shared;    // the room for the caller's connections
    std::string body_file = {};  // path of a file for the body; empty: it is kept in memory
    // Called on a thread for files: before `body_file` is created, with the length from the head (0: none), and before
    // each piece is written, with its length. Returns the refusal if no further bytes may be written. It may wait.
    std::function<std::optional<Response>(std::uint64_t bytes)> may_write = {};
    std::shared_ptr<const void> held = {};         // destroyed with the request, for example a reservation for its body
    std::uint64_t body_limit = ~std::uint64_t{0};  // bytes of a body in memory; the server's own limit applies too
    std::optional<Response> refusal = {};
};

struct ServerOptions {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any free port
    TlsIdentity identity;
    bool require_client_certificate = false;
    std::uint64_t body_limit = 16u << 20;  // a larger body is refused (413), unless `admit` names a file for it
    // Called on the connections' threads with method, path, query and headers of each request, before its body is read,
    // so it must not wait for a file. Without it every request is admitted, and its caller is the name in its
    // certificate.
    std::function<Admission(const Request& head)> admit;
    // added to each answer without a header of that name; lower-case names
    std::map<std::string, std::string> headers = {};
    std::uint32_t threads = 2;
    std::uint32_t idle_timeout_ms = 75'000;
    std::size_t connections_max = 1'024;  // further connections are closed at once
    // Gets "10.0.0.7:41234: its client certificate is not accepted: ..." once per address and reason.
    std::function<void(const std::string& note)> on_refused = {};
};

class Server {
  public:
    // If the port is busy, the Error{conflict} names the process that owns it, if /proc shows it.
    static Result<std::unique_ptr<Server>> listen(Loop& loop, ServerOptions options, Handler handler);
    virtual ~Server() = default;  // closes all connections and joins the threads
    virtual std::uint16_t port() const = 0;
    virtual void replace_identity(TlsIdentity identity) = 0;  // the renewed certificate; present connections stay
};

// A plain Unix-socket server for workers. A message is a 4-byte big-endian length and that many bytes (at most 64 MiB).
class UnixServer {
  public:
    static Result<std::unique_ptr<UnixServer>> listen(Loop& loop, std::string path,
                                                      std::function<SocketEvents(std::shared_ptr<Socket>)> accepted);
    virtual ~UnixServer() = default;
};

}  // namespace rtrain::net

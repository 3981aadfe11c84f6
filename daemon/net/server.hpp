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

#include "daemon/net/connection_table.hpp"
#include "daemon/net/loop/loop.hpp"
#include "scheduler/model/result.hpp"

namespace rtrain::net {

struct TlsIdentity {                // PEM texts
    std::string certificate_chain;  // leaf first, then the CA (a joiner checks its fingerprint)
    std::string private_key;
    std::string ca;  // who signs peers' certificates; empty: ask peers for none
};

struct Peer {
    std::string address;             // "127.0.0.1:41234"
    std::string certificate_name;    // common name of a verified certificate; empty: none was shown
    std::string certificate_serial;  // its serial number, upper-case hex
};

struct Request {
    std::string method;
    std::string path;                                         // decoded, without the query
    std::map<std::string, std::string, std::less<>> query;    // decoded
    std::map<std::string, std::string, std::less<>> headers;  // lower-case names
    std::string body;                                         // empty for streamed uploads
    std::string body_file;  // streamed uploads: where the body lies; the handler moves or removes it
    Peer peer;
    std::string header(std::string_view name) const;
};

class OpenFile {  // of an answer; closed with its last owner
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
    std::string file;  // not empty: the body is this file (from `file_offset`), streamed
    std::uint64_t file_offset = 0;
    std::shared_ptr<OpenFile> opened = {};  // instead of `file`: what was checked is what is sent
    std::string place =
        {};  // where `opened` lies, or `pieces` reads: a place that hangs keeps no answer from another one waiting
    // Not empty: the body is made while it is sent, each piece once the one before is on its way. Called, and let go
    // of, on a thread for files at `place`. An empty piece means that there is none yet; none, that something failed:
    // the answer breaks off.
    std::function<std::optional<MadePiece>()> pieces = {};
    // Asked before each piece of a file, or made one, in the connection's own thread. False: the answer is cut off.
    std::function<bool()> permitted = {};
};

// An answer that goes on: server-sent events, followed logs. Bounded: a reader that lags behind by more than 4 MiB is
// cut.
class Stream {
  public:
    virtual ~Stream() = default;
    virtual bool write(std::string chunk) = 0;  // false: the peer is gone or was cut
    virtual void close() = 0;                   // what waits is still written
    virtual void cut() = 0;  // what waits is dropped; a peer that has not read what is on its way is cut off
    virtual void on_closed(std::function<void()>) = 0;
    virtual std::size_t waiting() const = 0;  // bytes that the peer has not taken yet
};

class Socket {  // one WebSocket, either side
  public:
    virtual ~Socket() = default;
    virtual bool send(std::string text) = 0;  // false: closed, or more than 64 MiB wait to be sent
    virtual std::size_t waiting() const = 0;  // bytes, to be sent
    virtual void close(std::string reason) = 0;
    virtual const Peer& peer() const = 0;
};
struct SocketEvents {
    std::function<void(std::string text)> on_text;
    std::function<void(std::string why)> on_closed;  // once, last
    // Called in place of on_text where reading a text takes time, in the connection's own thread, so it touches nothing
    // of the loop's; the loop runs what it gives back.
    std::function<Loop::Task(std::string text)> read = {};
};

class Responder {  // answers one request, once; may be kept and used later. Dropped unused: 500
  public:
    virtual ~Responder() = default;
    virtual void send(Response response) = 0;
    virtual std::shared_ptr<Stream> stream(std::string content_type) = 0;
    virtual std::shared_ptr<Socket> accept_socket(SocketEvents events) = 0;  // only for a WebSocket upgrade
    virtual bool wants_socket() const = 0;
};
using Handler = std::function<void(Request, std::shared_ptr<Responder>)>;

// The decision on a request, made from its head before any of its body is read.
struct Admission {
    std::string caller = {};     // a user or a node, by a name that is nobody else's; empty: still a stranger
    Room room = Room::shared;    // for the caller's connections
    std::string body_file = {};  // where the body is written; empty: it is kept in memory
    // Asked on a thread for files before `body_file` is made, with the length that the head tells (0: none), and before
    // each piece of it is written, with the piece's: returns the refusal when no more may be written, or there is no
    // room for so many bytes. It may wait.
    std::function<std::optional<Response>(std::uint64_t bytes)> may_write = {};
    std::uint64_t body_limit = ~std::uint64_t{0};  // of a body in memory, beside the server's own limit
    std::optional<Response> refusal = {};
};

struct ServerOptions {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any
    TlsIdentity identity;
    bool require_client_certificate = false;
    std::uint64_t body_limit = 16u << 20;  // larger: 413, unless `admit` names a file for this request
    // Called by the connections' threads with method, path, query and headers of each request, before its body is read:
    // it waits for no file.
    // Without it every request is admitted, and its caller is the name in its certificate.
    std::function<Admission(const Request& head)> admit;
    std::map<std::string, std::string> headers = {};  // of each answer that has none of that name; lower-case names
    std::uint32_t threads = 2;
    std::uint32_t idle_timeout_ms = 75'000;
    std::size_t connections_max = 1'024;  // beyond: closed at once
    // "10.0.0.7:41234: its client certificate is not accepted: ..."; once for each address and reason.
    std::function<void(const std::string& note)> on_refused = {};
};

class Server {
  public:
    // A busy port is an Error{conflict} whose message names the process that owns it, where /proc tells.
    static Result<std::unique_ptr<Server>> listen(Loop& loop, ServerOptions options, Handler handler);
    virtual ~Server() = default;  // closes everything and joins its threads
    virtual std::uint16_t port() const = 0;
    virtual void replace_identity(TlsIdentity identity) = 0;  // renewed certificate; running connections stay
};

// Plain Unix-socket server for workers: 4-byte big-endian length, then that many bytes (at most 64 MiB).
class UnixServer {
  public:
    static Result<std::unique_ptr<UnixServer>> listen(Loop& loop, std::string path,
                                                      std::function<SocketEvents(std::shared_ptr<Socket>)> accepted);
    virtual ~UnixServer() = default;
};

}  // namespace rtrain::net

// See websocket.hpp.
#include "daemon/net/websocket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>
#include <mutex>
#include <utility>

namespace rtrain::net {
namespace {

namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;
using Frames = websocket::stream<Tls, false>;  // without per-message deflate
using Upgrade = beast::http::request<beast::http::empty_body>;

constexpr std::size_t message_limit = 16u << 20;
constexpr std::size_t send_limit = 64u << 20;
// bytes of texts that the loop has not handled; beyond it, reading pauses
constexpr std::size_t unread_limit = 16u << 20;
// `SocketEvents::read` gets longer texts on a thread of `ServerState::readers`: parsing 1 MiB takes some 20 ms.
constexpr std::size_t read_here_most = 64u << 10;
constexpr std::size_t write_buffer = 16u << 10;
constexpr std::size_t reason_limit = 120;
constexpr int unacknowledged_ms = 10'000;  // Agents connect again at once; a reader of a download may pause for longer.
constexpr auto handshake_timeout = std::chrono::seconds(10);
constexpr auto idle_timeout = std::chrono::seconds(20);  // a ping is sent after half of it
constexpr auto goodbye_timeout = std::chrono::milliseconds(3'000);

std::string words_of(const error_code& error) {
    if (error == websocket::error::closed) return "closed by the peer";
    if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) return "the connection broke off";
    if (error == beast::error::timeout) return "no sign of life from the peer";
    return error.message();
}

}  // namespace

// The state that the loop's handle and the connection's thread share.
struct SocketShared {
    explicit SocketShared(asio::io_context& of) : io(of) {}
    asio::io_context& io;
    std::mutex mutex;
    std::deque<std::string> waiting;
    std::size_t waiting_bytes = 0;
    bool pump_posted = false;
    bool closed = false;  // nothing further is accepted
    std::weak_ptr<WebSocket> socket;
    std::atomic<bool> silent = false;     // the owner has closed it: no further texts are passed on
    std::atomic<std::size_t> unread = 0;  // bytes of texts that the loop has not handled yet
};

class WebSocket : public IoThreadMember, public std::enable_shared_from_this<WebSocket> {
  public:
    WebSocket(SocketRole role, SocketEvents events, std::shared_ptr<SocketShared> shared)
        : role_(std::move(role)),
          events_(std::make_shared<SocketEvents>(std::move(events))),
          shared_(std::move(shared)),
          goodbye_(shared_->io) {}
    ~WebSocket() override;

    void accept(Wire& wire, const MessageHead& head, std::shared_ptr<void> ticket);
    void dial(Wire& wire, const std::string& host, const std::string& target, const std::string& bearer,
              std::function<void(std::optional<SocketRefusal>)> done);
    void pump();
    void close(std::string reason);
    void ended(std::string why);
    void drain() override { close("the server is shutting down"); }
    // Callbacks may own this handle, so they are moved to the loop.
    void cut() override { ended("the server has shut down"); }

  private:
    // A text on its way to the loop.
    struct Arrival {
        Loop& loop;
        std::shared_ptr<bool> alive;
        std::weak_ptr<WebSocket> socket;
        std::shared_ptr<SocketEvents> events;
        std::shared_ptr<SocketShared> shared;
        std::size_t bytes = 0;
        bool resumes = false;  // the connection is read again once the loop has handled the text
    };

    void take(Wire& wire);
    void read();
    void heard();
    void read_aside(Arrival arrival, std::string text);
    static void to_loop(Arrival arrival, Loop::Task deliver);
    void say_goodbye();
    void resume();

    SocketRole role_;
    std::shared_ptr<SocketEvents> events_;  // passed to the loop at the end and destroyed there
    std::shared_ptr<SocketShared> shared_;
    Watchdog goodbye_;
    std::shared_ptr<void> keeper_;  // TLS settings
    std::shared_ptr<void> ticket_;  // its place in the server's connection table
    std::unique_ptr<Frames> stream_;
    beast::flat_buffer in_;
    std::string out_;
    // The WebSocket itself while no read is pending: nothing else would own it. Null while it is being read.
    std::shared_ptr<WebSocket> paused_;
    bool open_ = false, writing_ = false, closing_ = false, close_sent_ = false, ended_ = false;
    std::string close_reason_;
};

WebSocket::~WebSocket() {
    if (role_.io_thread) role_.io_thread->leave(this);
    std::lock_guard lock(shared_->mutex);
    shared_->closed = true;
}

void WebSocket::take(Wire& wire) {
    keeper_ = wire.keeper();
    const int fd = wire.tls().next_layer().native_handle();
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
    stream_ = std::make_unique<Frames>(std::move(wire.tls()));
    stream_->set_option(websocket::stream_base::timeout{handshake_timeout, idle_timeout, true});
    stream_->read_message_max(message_limit);
    stream_->write_buffer_bytes(write_buffer);
    stream_->auto_fragment(false);
    stream_->binary(true);  // Texts may contain bytes that are not UTF-8, such as a worker's output.
    if (role_.io_thread) role_.io_thread->join(this);
}

void WebSocket::accept(Wire& wire, const MessageHead& head, std::shared_ptr<void> ticket) {
    take(wire);
    ticket_ = std::move(ticket);
    auto request = std::make_shared<Upgrade>();
    request->version(11);
    request->method(beast::http::verb::get);
    request->target(head.target);
    for (const auto& [name, value] : head.headers) request->set(name, value);
    stream_->async_accept(*request, [self = shared_from_this(), request](error_code error) {
        if (error) return self->ended("the WebSocket handshake failed: " + words_of(error));
        self->open_ = true;
        self->read();
        self->pump();
    });
}

void WebSocket::dial(Wire& wire, const std::string& host, const std::string& target, const std::string& bearer,
                     std::function<void(std::optional<SocketRefusal>)> done) {
    take(wire);
    stream_->set_option(websocket::stream_base::decorator([bearer](websocket::request_type& request) {
        if (!bearer.empty()) request.set(beast::http::field::authorization, "Bearer " + bearer);
    }));
    auto answer = std::make_shared<websocket::response_type>();
    stream_->async_handshake(*answer, host, target, [self = shared_from_this(), answer, done](error_code error) {
        if (!error) {
            self->open_ = true;
            done(std::nullopt);
            self->read();
            return self->pump();
        }
        SocketRefusal refusal{.why = words_of(error)};
        if (error == websocket::error::upgrade_declined) {
            refusal.status = answer->result_int();
            refusal.why = "HTTP " + std::to_string(refusal.status) + " " + answer->body();
        }
        self->events_ = std::make_shared<SocketEvents>();  // only `done` reports the end then
        done(refusal);
        self->ended(refusal.why);
    });
}

void WebSocket::read() {
    stream_->async_read(in_, [self = shared_from_this()](error_code error, std::size_t) {
        if (error) {
            const auto& reason = self->stream_->reason().reason;
            self->ended(reason.empty() ? words_of(error) : std::string(reason.data(), reason.size()));
        } else {
            self->heard();
        }
    });
}

void WebSocket::heard() {
    if (ended_) return;
    std::string text(static_cast<const char*>(in_.data().data()), in_.size());
    in_.consume(in_.size());
    Arrival arrival{.loop = role_.loop,
                    .alive = role_.alive,
                    .socket = weak_from_this(),
                    .events = events_,
                    .shared = shared_,
                    .bytes = text.size() + 1};
    const bool fills = shared_->unread.fetch_add(arrival.bytes) + arrival.bytes > unread_limit;
    if (events_->read && role_.readers && text.size() > read_here_most)
        return read_aside(std::move(arrival), std::move(text));
    Loop::Task deliver;
    if (events_->read)
        deliver = events_->read(std::move(text));
    else if (events_->on_text)
        deliver = [events = events_, text = std::move(text)]() mutable { events->on_text(std::move(text)); };
    if (fills) paused_ = shared_from_this();
    to_loop(std::move(arrival), std::move(deliver));
    if (!fills) read();
}

// Parses a long text on another thread, since this thread carries other connections. The connection is read again once
// the loop has handled the text, so that texts keep their order. The other thread does not own the WebSocket, which
// ends on its own thread.
void WebSocket::read_aside(Arrival arrival, std::string text) {
    paused_ = shared_from_this();
    arrival.resumes = true;
    role_.readers->add(role_.peer.certificate_name, [arrival = std::move(arrival), text = std::move(text)]() mutable {
        Loop::Task deliver = arrival.events->read(std::move(text));
        to_loop(std::move(arrival), std::move(deliver));
    });
}

// The callbacks may own the socket's handle, so the loop destroys the last reference to them.
void WebSocket::to_loop(Arrival arrival, Loop::Task deliver) {
    Loop& loop = arrival.loop;
    loop.post([arrival = std::move(arrival), deliver = std::move(deliver)]() mutable {
        // On the loop only `alive` shows whether the server, and with it the io_context, still exists.
        if (!*arrival.alive) return;
        const auto& shared = arrival.shared;
        if (deliver && !shared->silent) deliver();
        const std::size_t before = shared->unread.fetch_sub(arrival.bytes);
        const bool has_room_again = before > unread_limit && before - arrival.bytes <= unread_limit;
        if (!(arrival.resumes || has_room_again) || !*arrival.alive) return;
        asio::post(shared->io, [weak = arrival.socket] {
            if (auto self = weak.lock()) self->resume();
        });
    });
}

void WebSocket::resume() {
    if (!paused_ || ended_) return;
    paused_.reset();  // The caller owns the WebSocket.
    read();
}

void WebSocket::pump() {
    if (!open_ || writing_ || ended_) return;
    {
        std::lock_guard lock(shared_->mutex);
        shared_->pump_posted = false;
        if (shared_->waiting.empty()) {
            out_.clear();
            if (out_.capacity() > (1u << 20)) out_.shrink_to_fit();
        } else {
            out_ = std::move(shared_->waiting.front());
            shared_->waiting.pop_front();
            writing_ = true;
        }
    }
    if (!writing_) {
        if (closing_) say_goodbye();
        return;
    }
    stream_->async_write(asio::buffer(out_), [self = shared_from_this()](error_code error, std::size_t) {
        self->writing_ = false;
        {
            std::lock_guard lock(self->shared_->mutex);
            self->shared_->waiting_bytes -= self->out_.size();
        }
        if (error) return self->ended(words_of(error));
        self->pump();
    });
}

void WebSocket::close(std::string reason) {
    if (closing_ || ended_) return;
    closing_ = true;
    close_reason_ = reason.substr(0, reason_limit);
    goodbye_.within(goodbye_timeout);
    goodbye_.start(shared_from_this(), [this] { ended(close_reason_); });
    pump();
}

void WebSocket::say_goodbye() {
    if (close_sent_) return;
    close_sent_ = true;
    websocket::close_reason reason(websocket::close_code::normal, close_reason_);
    stream_->async_close(reason, [self = shared_from_this()](error_code) { self->ended(self->close_reason_); });
}

void WebSocket::ended(std::string why) {
    if (ended_) return;
    ended_ = true;
    const auto self = std::move(paused_);
    goodbye_.stop();
    {
        std::lock_guard lock(shared_->mutex);
        shared_->closed = true;
        shared_->waiting.clear();
    }
    if (stream_) {
        error_code ignored;
        stream_->next_layer().next_layer().close(ignored);
    }
    role_.loop.post([alive = role_.alive, events = std::move(events_), why = std::move(why)] {
        if (*alive && events->on_closed) events->on_closed(why);
    });
    ticket_.reset();
    if (role_.io_thread) role_.io_thread->leave(this);
}

namespace {

class SocketHandle final : public Socket {
  public:
    SocketHandle(std::shared_ptr<SocketShared> shared, Peer peer, std::shared_ptr<void> keeper)
        : keeper_(std::move(keeper)), shared_(std::move(shared)), peer_(std::move(peer)) {}

    bool send(std::string text) override {
        {
            std::lock_guard lock(shared_->mutex);
            if (shared_->closed || shared_->waiting_bytes + text.size() > send_limit) return false;
            shared_->waiting_bytes += text.size();
            shared_->waiting.push_back(std::move(text));
            if (std::exchange(shared_->pump_posted, true)) return true;
        }
        to_socket([](WebSocket& socket) { socket.pump(); });
        return true;
    }

    std::size_t waiting() const override {
        std::lock_guard lock(shared_->mutex);
        return shared_->waiting_bytes;
    }

    void close(std::string reason) override {
        {
            std::lock_guard lock(shared_->mutex);
            if (std::exchange(shared_->closed, true)) return;
        }
        shared_->silent = true;
        to_socket([reason = std::move(reason)](WebSocket& socket) { socket.close(reason); });
    }

    const Peer& peer() const override { return peer_; }

  private:
    void to_socket(std::function<void(WebSocket&)> task) {
        asio::post(shared_->io, [weak = shared_->socket, task = std::move(task)] {
            if (auto socket = weak.lock()) task(*socket);
        });
    }
    std::shared_ptr<void> keeper_;  // The io_context lives as long as this member, so it is destroyed last.
    std::shared_ptr<SocketShared> shared_;
    Peer peer_;
};

}  // namespace

SocketPair make_socket(asio::io_context& io, SocketRole role, SocketEvents events) {
    auto shared = std::make_shared<SocketShared>(io);
    Peer peer = role.peer;
    // The connection must not own it: its io_context would own itself.
    auto keeper = std::exchange(role.keeper, nullptr);
    auto socket = std::make_shared<WebSocket>(std::move(role), std::move(events), shared);
    shared->socket = socket;
    return {std::make_shared<SocketHandle>(shared, std::move(peer), std::move(keeper)), socket};
}

void accept_socket(const std::shared_ptr<WebSocket>& socket, Wire& wire, const MessageHead& head,
                   std::shared_ptr<void> ticket) {
    socket->accept(wire, head, std::move(ticket));
}

void dial_upgrade(const std::shared_ptr<WebSocket>& socket, Wire& wire, const std::string& host,
                  const std::string& target, const std::string& bearer,
                  std::function<void(std::optional<SocketRefusal>)> done) {
    socket->dial(wire, host, target, bearer, std::move(done));
}

void drop_socket(const std::shared_ptr<WebSocket>& socket, std::string why) { socket->ended(std::move(why)); }

}  // namespace rtrain::net

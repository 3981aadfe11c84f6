// The Unix-socket server of an agent: messages from its workers. No TLS: the permissions of the socket's file protect
// it. Runs on the loop's thread.
#include "daemon/net/unix.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "daemon/net/loop/asio.hpp"

namespace rtrain::net {
namespace {

using local = asio::local::stream_protocol;
using UnixStream = asio::basic_stream_socket<local, asio::io_context::executor_type>;
using UnixAcceptor = asio::basic_socket_acceptor<local, asio::io_context::executor_type>;
constexpr std::size_t message_limit = 64u << 20;
constexpr std::size_t send_limit = 64u << 20;
constexpr auto unix_accept_pause = std::chrono::milliseconds(100);
constexpr std::size_t length_size = 4;

std::array<unsigned char, length_size> length_bytes(std::size_t length) {
    return {static_cast<unsigned char>(length >> 24), static_cast<unsigned char>(length >> 16),
            static_cast<unsigned char>(length >> 8), static_cast<unsigned char>(length)};
}

UnixPeer peer_of(int descriptor) {
    ucred who{};
    socklen_t size = sizeof who;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
    return {.pid = who.pid, .uid = who.uid};
}

// Returns "pid 123 uid 1000": the peer as the kernel reports it.
std::string text_of(const UnixPeer& who) {
    return who.uid < 0 ? "unknown" : "pid " + std::to_string(who.pid) + " uid " + std::to_string(who.uid);
}

class UnixSocket;
struct UnixSockets {
    UnixLimits limits;
    std::set<std::shared_ptr<UnixSocket>> all = {};
    std::uint64_t begun = 0;  // counter of connections and messages, which orders them by age
    void bound_strangers();
    void bound_unfinished();
};

class UnixSocket final : public Socket, public std::enable_shared_from_this<UnixSocket> {
  public:
    UnixSocket(UnixStream stream, const std::shared_ptr<UnixSockets>& all)
        : stream_(std::move(stream)),
          patience_(stream_.get_executor()),
          who_(peer_of(stream_.native_handle())),
          peer_{.address = text_of(who_)},
          limits_(all->limits),
          all_(all),
          begun_(++all->begun) {}

    void start(SocketEvents events) {
        events_ = std::make_shared<const SocketEvents>(std::move(events));
        end_after(limits_.stranger_ms, "it has not said who it is in time");
        read();
    }
    void introduce();
    const UnixPeer& who() const { return who_; }
    bool stranger() const { return stranger_; }
    std::uint64_t begun() const { return begun_; }
    std::size_t unfinished() const { return in_.size() > limits_.stranger_bytes ? in_.size() : 0; }
    bool send(std::string text) override;
    bool send_with(const std::string& text, int descriptor);
    std::size_t waiting() const override { return waiting_bytes_; }
    void close(std::string reason) override;
    const Peer& peer() const override { return peer_; }
    void ended(const std::string& why);
    void forget() { events_.reset(); }  // the server has ended: no callback runs

  private:
    void read();
    bool take();
    void make_room(std::size_t expected);
    void watch_unfinished();
    void end_after(std::int64_t milliseconds, const char* why);
    std::string broke_off(error_code error) const;
    void write();
    void written();
    using Parts = std::array<asio::const_buffer, 2>;
    std::size_t sent_at_once(Parts& parts, int descriptor = -1);

    UnixStream stream_;
    Timer patience_;
    const UnixPeer who_;
    Peer peer_;
    const UnixLimits limits_;
    std::weak_ptr<UnixSockets> all_;
    std::uint64_t begun_;  // order of this connection, or of its incomplete message
    std::shared_ptr<const SocketEvents> events_;
    std::array<unsigned char, length_size> out_length_{};
    std::array<char, 16u << 10> piece_;
    std::size_t waiting_bytes_ = 0;
    std::string in_;  // received bytes that are not a whole message yet
    std::deque<std::string> waiting_;
    bool writing_ = false, closing_ = false, ended_ = false, stranger_ = true, waits_for_rest_ = false;
    std::string close_reason_;
};

// Memory grows with the received bytes, not with the announced length. A small message arrives with one call.
void UnixSocket::read() {
    stream_.async_read_some(asio::buffer(piece_), [self = shared_from_this()](error_code error, std::size_t size) {
        if (error) return self->ended(self->broke_off(error));
        self->closing_ ? self->in_.clear() : void(self->in_.append(self->piece_.data(), size));
        if (!self->take()) return;
        self->watch_unfinished();
        if (!self->ended_) self->read();
    });
}

void UnixSocket::end_after(std::int64_t milliseconds, const char* why) {
    patience_.expires_after(std::chrono::milliseconds(milliseconds));
    patience_.async_wait([weak = weak_from_this(), why](error_code error) {
        const auto self = weak.lock();
        if (self && !error) self->ended(why);
    });
}

void UnixSocket::introduce() {
    if (!std::exchange(stranger_, false) || closing_) return;
    patience_.cancel();
}

// Accounts an incomplete message: its deadline and its bytes.
void UnixSocket::watch_unfinished() {
    if (stranger_ || closing_) return;
    if (in_.empty()) {
        if (std::exchange(waits_for_rest_, false)) patience_.cancel();
        if (in_.capacity() > limits_.stranger_bytes) std::string().swap(in_);
        return;
    }
    const auto all = all_.lock();
    if (!std::exchange(waits_for_rest_, true)) {
        if (all) begun_ = ++all->begun;
        end_after(limits_.unfinished_ms, "a message was not finished in time");
    }
    if (all && unfinished() > 0) all->bound_unfinished();
}

// Space is reserved once per message: a growing text would be copied and take twice its size. The system gives memory
// only as it is written, so an announced length costs nothing.
void UnixSocket::make_room(std::size_t expected) {
    const std::size_t room = length_size + expected + piece_.size();
    if (expected > limits_.stranger_bytes && in_.capacity() < room) in_.reserve(room);
}

std::string UnixSocket::broke_off(error_code error) const {
    if (in_.size() > length_size) return "the connection broke off in the middle of a message";
    return error == asio::error::eof ? "closed by the peer" : error.message();
}

// Passes on every whole message. Returns false if this socket has ended.
bool UnixSocket::take() {
    std::size_t at = 0;
    while (!ended_ && in_.size() - at >= length_size) {
        std::size_t expected = 0;
        for (std::size_t i = 0; i < length_size; ++i)
            expected = expected << 8 | static_cast<unsigned char>(in_[at + i]);
        const std::size_t limit = stranger_ ? limits_.stranger_bytes : message_limit;
        if (expected > limit) {
            ended("a message of " + std::to_string(expected) + " bytes is over the limit of " + std::to_string(limit));
            break;
        }
        if (in_.size() - at - length_size < expected) {
            in_.erase(0, std::exchange(at, 0));
            make_room(expected);
            break;
        }
        std::string text = in_.substr(at + length_size, expected);
        at += length_size + expected;
        if (!events_ || closing_) continue;
        if (std::exchange(waits_for_rest_, false)) patience_.cancel();
        const auto keep = events_;  // The callback may end this socket.
        if (keep->read)
            keep->read(std::move(text))();
        else if (keep->on_text)
            keep->on_text(std::move(text));
    }
    in_.erase(0, at);
    return !ended_;
}

bool UnixSocket::send(std::string text) {
    if (ended_ || closing_ || text.size() > message_limit || waiting_bytes_ + text.size() > send_limit) return false;
    waiting_bytes_ += text.size();
    waiting_.push_back(std::move(text));
    write();
    return true;
}

// Writes what the kernel takes without waiting. Most messages are sent at once, without a task on the loop.
std::size_t UnixSocket::sent_at_once(Parts& parts, int descriptor) {
    std::array<iovec, 2> pieces{};
    for (std::size_t i = 0; i < parts.size(); ++i) pieces[i] = {const_cast<void*>(parts[i].data()), parts[i].size()};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> beside{};
    if (descriptor >= 0) {
        message.msg_control = beside.data();
        message.msg_controllen = beside.size();
        cmsghdr* extra = CMSG_FIRSTHDR(&message);
        extra->cmsg_level = SOL_SOCKET;
        extra->cmsg_type = SCM_RIGHTS;
        extra->cmsg_len = CMSG_LEN(sizeof descriptor);
        std::memcpy(CMSG_DATA(extra), &descriptor, sizeof descriptor);
    }
    const ssize_t sent = ::sendmsg(stream_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent > 0 ? static_cast<std::size_t>(sent) : 0;  // The pending write meets the error again and reports it.
}

// The text is short, so the kernel takes it as a whole or not at all.
bool UnixSocket::send_with(const std::string& text, int descriptor) {
    if (ended_ || closing_ || writing_ || !waiting_.empty() || text.size() > piece_.size()) return false;
    const auto length = length_bytes(text.size());
    Parts parts = {asio::buffer(length), asio::buffer(text)};
    return sent_at_once(parts, descriptor) == asio::buffer_size(parts);
}

void UnixSocket::write() {
    while (!writing_ && !ended_ && !waiting_.empty()) {
        out_length_ = length_bytes(waiting_.front().size());
        Parts parts = {asio::buffer(out_length_), asio::buffer(waiting_.front())};
        const std::size_t sent = sent_at_once(parts);
        if (sent == asio::buffer_size(parts)) {
            written();
            continue;
        }
        parts[1] += sent > length_size ? sent - length_size : 0;
        parts[0] += std::min(sent, length_size);
        writing_ = true;
        asio::async_write(stream_, parts, [self = shared_from_this()](error_code error, std::size_t) {
            self->writing_ = false;
            if (error) return self->ended(error.message());
            self->written();
            self->write();
        });
    }
    if (!writing_ && !ended_ && closing_) ended(close_reason_);
}

void UnixSocket::written() {
    waiting_bytes_ -= waiting_.front().size();
    waiting_.pop_front();
}

void UnixSocket::close(std::string reason) {
    if (std::exchange(closing_, true)) return;
    close_reason_ = std::move(reason);
    end_after(limits_.close_ms, "it does not read what was sent to it");
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->write(); });
}

void UnixSocket::ended(const std::string& why) {
    if (std::exchange(ended_, true)) return;
    error_code ignored;
    patience_.cancel();
    stream_.close(ignored);
    std::string().swap(in_);
    const auto events = std::exchange(events_, nullptr);
    if (auto all = all_.lock()) all->all.erase(shared_from_this());
    if (events && events->on_closed) events->on_closed(why);
}

// One user's share of a bound: its amount, and its oldest connection.
struct UserShare {
    std::size_t used = 0;
    std::shared_ptr<UnixSocket> oldest;
};

// Ends the oldest connections of the users with the largest shares, until no share exceeds `of_user` and the sum does
// not exceed `in_all`.
template <class Part>
void bound(const std::set<std::shared_ptr<UnixSocket>>& sockets, std::size_t of_user, std::size_t in_all,
           const char* why, Part part_of) {
    std::map<std::int64_t, UserShare> users;
    std::size_t sum = 0;
    for (const auto& socket : sockets) {
        const std::size_t part = part_of(*socket);
        if (part == 0) continue;
        UserShare& share = users[socket->who().uid];
        sum += part;
        share.used += part;
        if (!share.oldest || socket->begun() < share.oldest->begun()) share.oldest = socket;
    }
    const auto most = std::max_element(users.begin(), users.end(), [](const auto& user, const auto& other) {
        return user.second.used < other.second.used;
    });
    if (most == users.end() || (most->second.used <= of_user && sum <= in_all)) return;
    most->second.oldest->ended(why);
    bound(sockets, of_user, in_all, why, part_of);
}

void UnixSockets::bound_strangers() {
    bound(all, limits.strangers_of_user, limits.strangers, "too many connections that have not said who they are",
          [](const UnixSocket& socket) { return std::size_t{socket.stranger()}; });
}

void UnixSockets::bound_unfinished() {
    bound(all, limits.unfinished_of_user, limits.unfinished, "too many bytes of messages that are not finished",
          [](const UnixSocket& socket) { return socket.unfinished(); });
}

// Shared with the completion that waits for the next connection, which may run after the server's end.
struct Listening {
    Listening(asio::io_context& io, std::function<SocketEvents(std::shared_ptr<Socket>)> task, UnixLimits limits)
        : acceptor(io), pause(io), accepted(std::move(task)), all(std::make_shared<UnixSockets>(UnixSockets{limits})) {}
    UnixAcceptor acceptor;
    Timer pause;
    std::function<SocketEvents(std::shared_ptr<Socket>)> accepted;
    std::shared_ptr<UnixSockets> all;
};

void accept(const std::shared_ptr<Listening>& on) {
    on->acceptor.async_accept([on](error_code error, UnixStream stream) {
        if (!on->acceptor.is_open()) return;
        if (error) {  // No descriptor is free: workers that end give some back.
            on->pause.expires_after(unix_accept_pause);
            return on->pause.async_wait([on](error_code) {
                if (on->acceptor.is_open()) accept(on);
            });
        }
        auto socket = std::make_shared<UnixSocket>(std::move(stream), on->all);
        on->all->all.insert(socket);
        socket->start(on->accepted(socket));
        on->all->bound_strangers();
        if (on->acceptor.is_open()) accept(on);
    });
}

class UnixListener final : public UnixServer {
  public:
    UnixListener(asio::io_context& io, std::string path, std::function<SocketEvents(std::shared_ptr<Socket>)> accepted,
                 UnixLimits limits)
        : path_(std::move(path)), on_(std::make_shared<Listening>(io, std::move(accepted), limits)) {}
    ~UnixListener() override;
    Status bind();
    void start() { accept(on_); }

  private:
    std::string path_;
    std::shared_ptr<Listening> on_;
    bool bound_ = false;
};

bool answers(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool connected = ::connect(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    const bool busy = connected || errno == EAGAIN;
    ::close(probe);
    return busy;
}

Status UnixListener::bind() {
    if (path_.size() >= sizeof(sockaddr_un::sun_path))
        return Error{ErrorCode::invalid,
                     "the socket's path " + path_ + " has " + std::to_string(path_.size()) +
                         " bytes; the system allows " + std::to_string(sizeof(sockaddr_un::sun_path) - 1),
                     "choose a data directory with a shorter path"};
    struct stat facts{};
    if (::lstat(path_.c_str(), &facts) == 0) {
        if (!S_ISSOCK(facts.st_mode) || answers(path_))
            return Error{ErrorCode::conflict, path_ + " is in use", "stop the process that listens there"};
        ::unlink(path_.c_str());  // left behind by a process that was killed
    }
    error_code error;
    on_->acceptor.open(local(), error);
    if (!error) on_->acceptor.bind(local::endpoint(path_), error);
    if (!error && ::chmod(path_.c_str(), 0600) != 0) error = error_code(errno, boost::system::system_category());
    if (!error) on_->acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) return Error{ErrorCode::io, "listening on " + path_ + ": " + error.message(), ""};
    bound_ = true;
    return Done{};
}

UnixListener::~UnixListener() {
    error_code ignored;
    on_->acceptor.close(ignored);
    on_->pause.cancel();
    if (bound_) ::unlink(path_.c_str());
    const auto ending = on_->all->all;
    for (const auto& socket : ending) {
        socket->forget();
        socket->ended("the server ended");
    }
}

}  // namespace

bool send_with_descriptor(Socket& socket, const std::string& text, int descriptor) {
    auto* local_socket = dynamic_cast<UnixSocket*>(&socket);
    return local_socket && local_socket->send_with(text, descriptor);
}

void introduced(Socket& socket) {
    if (auto* local_socket = dynamic_cast<UnixSocket*>(&socket)) local_socket->introduce();
}

UnixPeer unix_peer(const Socket& socket) {
    const auto* local_socket = dynamic_cast<const UnixSocket*>(&socket);
    return local_socket ? local_socket->who() : UnixPeer{};
}

Result<std::unique_ptr<UnixServer>> listen_unix(Loop& loop, std::string path,
                                                std::function<SocketEvents(std::shared_ptr<Socket>)> accepted,
                                                UnixLimits limits) {
    auto& io = *static_cast<asio::io_context*>(loop.io_context());
    auto server = std::make_unique<UnixListener>(io, std::move(path), std::move(accepted), limits);
    if (Status bound = server->bind(); !bound) return bound.error();
    server->start();
    return std::unique_ptr<UnixServer>(std::move(server));
}

Result<std::unique_ptr<UnixServer>> UnixServer::listen(Loop& loop, std::string path,
                                                       std::function<SocketEvents(std::shared_ptr<Socket>)> accepted) {
    return listen_unix(loop, std::move(path), std::move(accepted), {});
}

}  // namespace rtrain::net

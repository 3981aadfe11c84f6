#include "runtime/worker/link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/worker/last_error.hpp"

namespace rtrain::worker {

std::string Link::connect(const std::string& path) {
    close();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        return "its path has " + std::to_string(path.size()) + " bytes and the most is " +
               std::to_string(sizeof(address.sun_path) - 1);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_ < 0) return errno_text(errno);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return {};
    const int error = errno;
    close();
    return errno_text(error);
}

void Link::close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    out_.clear();
    in_ = FrameReader{};
}

void Link::swap(Link& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(out_, other.out_);
    std::swap(in_, other.in_);
    std::swap(why_closed_, other.why_closed_);
}

void Link::lost(std::string why) {
    close();
    why_closed_ = std::move(why);
}

void Link::send(std::string_view frame) {
    if (!open()) return;
    out_.append(frame);
    flush();
}

void Link::flush() {
    while (open() && !out_.empty()) {
        const ssize_t sent = ::send(socket_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            out_.erase(0, static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            // The agent's last message (a refusal) can still be read: `read` finds the end of the stream.
            out_.clear();
            ::shutdown(socket_, SHUT_WR);
            return;
        }
    }
}

void Link::wait_sent(std::chrono::milliseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    for (auto now = until - limit; open() && backlog() && now < until; now = std::chrono::steady_clock::now()) {
        wait().until_ready(static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(until - now).count()));
        flush();
    }
}

// Receives bytes, and a descriptor that may come with them.
ssize_t Link::receive(char* bytes, std::size_t size) {
    iovec place{bytes, size};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> beside;
    msghdr message{};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    message.msg_control = beside.data();
    message.msg_controllen = beside.size();
    const ssize_t got = ::recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const cmsghdr* extra = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (extra && extra->cmsg_level == SOL_SOCKET && extra->cmsg_type == SCM_RIGHTS) {
        if (descriptor_ >= 0) ::close(descriptor_);
        std::memcpy(&descriptor_, CMSG_DATA(extra), sizeof descriptor_);
    }
    return got;
}

void Link::read(const std::function<void(FromAgent)>& on_message) {
    flush();
    std::array<char, 65536> bytes;
    while (open()) {
        const ssize_t got = receive(bytes.data(), bytes.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got < 0) return lost(errno_text(errno));
        if (got == 0) return lost("it closed the connection");
        in_.add({bytes.data(), static_cast<std::size_t>(got)});
        for (;;) {
            auto body = in_.next();
            if (!body) return lost(body.error().message);
            if (!body->has_value()) break;
            auto message = decode_from_agent(**body);
            if (!message) return lost(message.error().message);
            on_message(std::move(message).value());
            if (!open()) return;
        }
        if (static_cast<std::size_t>(got) < bytes.size()) return;
    }
}

Link::Wait Link::wait() const {
    return {.socket = socket_, .events = static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT))};
}

void Link::Wait::until_ready(int milliseconds) const {
    pollfd watched{socket, events, 0};
    ::poll(&watched, socket < 0 ? 0 : 1, milliseconds);  // EINTR: the caller checks again anyway.
}

}  // namespace rtrain::worker

// Sends each message as one datagram. A service manager that does not read can delay only a daemon's start, and only
// for a bounded time.
#include "cmd/daemons/notify.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cmd/line/settings.hpp"

namespace rtrain::cmd {
namespace {

constexpr timeval longest_wait{.tv_sec = 30, .tv_usec = 0};

std::int64_t number_of(std::string_view text) {  // returns 0 for a text that is not a number
    std::int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    return read.ec == std::errc() && read.ptr == text.data() + text.size() ? value : 0;
}

}  // namespace

Notifier Notifier::from_environment() {
    constexpr std::int64_t us_per_ms = 1'000;
    Notifier notifier;
    notifier.socket_ = environment("NOTIFY_SOCKET");
    if (notifier.wanted()) {
        notifier.from_ = storage::Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        ::setsockopt(notifier.from_.number(), SOL_SOCKET, SO_SNDTIMEO, &longest_wait, sizeof longest_wait);
    }
    const std::string pid = environment("WATCHDOG_PID");
    if (notifier.wanted() && (pid.empty() || number_of(pid) == ::getpid()))
        notifier.watchdog_ms_ = number_of(environment("WATCHDOG_USEC")) / us_per_ms;
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
    return notifier;
}

int Notifier::send(const std::string& state, int flags) const {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    if (socket_.size() >= sizeof to.sun_path || (socket_[0] != '@' && socket_[0] != '/')) return EINVAL;
    std::memcpy(to.sun_path, socket_.data(), socket_.size());
    if (socket_[0] == '@') to.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
    const auto* const address = reinterpret_cast<const sockaddr*>(&to);
    for (;;) {
        if (::sendto(from_.number(), state.data(), state.size(), flags | MSG_NOSIGNAL, address, size) >= 0) return 0;
        if (errno != EINTR) return errno;
    }
}

Status Notifier::ready(const std::string& status) const {
    const int error = wanted() ? send("READY=1\nSTATUS=" + status, 0) : 0;
    if (error == 0) return Done{};
    return Error{
        .code = ErrorCode::io,
        .message = "the service manager at " + socket_ + " does not know that this serves: " + std::strerror(error),
        .next = "it ends what does not say so: is NOTIFY_SOCKET a manager's?"};
}

void Notifier::feed_watchdog() const {
    if (wanted()) send("WATCHDOG=1", MSG_DONTWAIT);
}

}  // namespace rtrain::cmd

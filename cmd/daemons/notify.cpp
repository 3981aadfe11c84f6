// One datagram a message, never waited for: a manager that does not read must not stop a daemon.
#include "cmd/daemons/notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cmd/line/settings.hpp"

namespace rtrain::cmd {
namespace {

std::int64_t number_of(std::string_view text) {  // 0: not a number
    std::int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    return read.ec == std::errc() && read.ptr == text.data() + text.size() ? value : 0;
}

}  // namespace

Notifier Notifier::from_environment() {
    constexpr std::int64_t us_per_ms = 1'000;
    Notifier made;
    made.socket_ = environment("NOTIFY_SOCKET");
    const std::string pid = environment("WATCHDOG_PID");
    if (made.wanted() && (pid.empty() || number_of(pid) == ::getpid()))
        made.watchdog_ms_ = number_of(environment("WATCHDOG_USEC")) / us_per_ms;
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
    return made;
}

bool Notifier::send(const std::string& state) const {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    if (!wanted() || socket_.size() >= sizeof to.sun_path || (socket_[0] != '@' && socket_[0] != '/')) return false;
    std::memcpy(to.sun_path, socket_.data(), socket_.size());
    if (socket_[0] == '@') to.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
    const int from = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (from < 0) return false;
    const ssize_t sent =
        ::sendto(from, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), size);
    ::close(from);
    return sent == static_cast<ssize_t>(state.size());
}

}  // namespace rtrain::cmd

// The table of rendezvous ports.
#include "daemon/agent/hardware/ports.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace rtrain::agent {

Ports::Ports(std::uint16_t start, std::function<bool(std::uint16_t)> free)
    : next_(static_cast<std::uint16_t>(first + start % (last - first + 1))), free_(std::move(free)) {}

std::optional<std::uint16_t> Ports::take(Time now) {
    std::erase_if(given_, [&](const auto& given) { return now.ms - given.second.ms >= rest_ms; });
    for (int tried = 0; tried <= last - first; ++tried) {
        const std::uint16_t port = next_;
        next_ = port == last ? first : static_cast<std::uint16_t>(port + 1);
        if (given_.contains(port) || !free_(port)) continue;
        given_[port] = now;
        return port;
    }
    return std::nullopt;
}

bool can_bind(std::uint16_t port) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return false;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(port);
    const bool bound = ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(descriptor);
    return bound;
}

}  // namespace rtrain::agent

// See is_own_peer in local_proxy.hpp.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

#include "cmd/dashboard/local_proxy.hpp"

namespace rtrain::cmd {
namespace {

// An IPv4 end of a connection as /proc/net/tcp writes it: "0100007F:1D09".
std::optional<std::string> written(int socket, int (*name)(int, sockaddr*, socklen_t*)) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (name(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.sin_family != AF_INET)
        return std::nullopt;
    char text[32];
    std::snprintf(text, sizeof text, "%08X:%04X", address.sin_addr.s_addr, ntohs(address.sin_port));
    return text;
}

}  // namespace

bool is_own_peer(int socket) {
    const auto here = written(socket, ::getsockname), there = written(socket, ::getpeername);
    if (!here || !there) return false;
    std::ifstream table("/proc/net/tcp");
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
        std::istringstream fields(line);
        std::string slot, local, remote, state, queues, timer, retransmits;
        uid_t user = 0;
        fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user;
        if (fields && local == *there && remote == *here) return user == ::geteuid() || user == 0;
    }
    return true;
}

}  // namespace rtrain::cmd

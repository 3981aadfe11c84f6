// See peer_user.hpp.
#include "cmd/dashboard/peer_user.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace rtrain::cmd {
namespace {

// One end of a connection as the kernel's tables contain it: "0100007F:1D09".
struct TableEnd {
    std::string ipv4;
    // the same end in the table of IPv6 sockets (::ffff:127.0.0.1)
    std::string mapped() const { return "0000000000000000FFFF0000" + ipv4; }
};

std::optional<TableEnd> table_end(int socket, int (*name)(int, sockaddr*, socklen_t*)) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (name(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.sin_family != AF_INET)
        return std::nullopt;
    char text[32];
    std::snprintf(text, sizeof text, "%08X:%04X", address.sin_addr.s_addr, ntohs(address.sin_port));
    return TableEnd{text};
}

// Returns the user of the open socket with these ends. A socket that its process has closed is not counted: the kernel
// lists it as root's.
std::optional<uid_t> user_in(const char* table, const std::string& local, const std::string& remote) {
    const std::string established = "01";
    std::ifstream rows(table);
    std::string row;
    std::getline(rows, row);
    while (std::getline(rows, row)) {
        std::istringstream fields(row);
        std::string slot, row_local, row_remote, state, queues, timer, retransmits;
        uid_t user = 0;
        fields >> slot >> row_local >> row_remote >> state >> queues >> timer >> retransmits >> user;
        if (fields && row_local == local && row_remote == remote && state == established) return user;
    }
    return std::nullopt;
}

}  // namespace

bool is_own_peer(int socket) {
    const auto here = table_end(socket, ::getsockname), there = table_end(socket, ::getpeername);
    if (!here || !there) return false;
    // The table is read several times, because a row may be missing if the table changes meanwhile.
    constexpr int looks_most = 3;
    for (int look = 0; look < looks_most; ++look) {
        auto user = user_in("/proc/net/tcp", there->ipv4, here->ipv4);
        if (!user) user = user_in("/proc/net/tcp6", there->mapped(), here->mapped());
        if (user) return *user == ::geteuid() || *user == 0;
    }
    return false;
}

}  // namespace rtrain::cmd

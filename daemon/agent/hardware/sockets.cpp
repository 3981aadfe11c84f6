// Asks the kernel for its TCP connections: sock_diag(7), with the numbers of tcp(7), TCP_INFO. No right is needed for
// it.
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/descriptor.hpp"
#include "daemon/agent/hardware/traffic.hpp"

namespace rtrain::agent {
namespace {

constexpr std::size_t answer_most = 1 << 16;
constexpr std::size_t sockets_most = 1'000'000;
constexpr std::array<std::uint8_t, 2> address_families = {AF_INET, AF_INET6};
constexpr std::uint32_t tcp_listen = 10, tcp_time_wait = 6;  // states without traffic: TCP_LISTEN, TCP_TIME_WAIT

bool request_sockets(int socket, std::uint8_t family) {
    struct {
        nlmsghdr header;
        inet_diag_req_v2 body;
    } request{};
    request.header = {.nlmsg_len = sizeof request,
                      .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                      .nlmsg_seq = family,
                      .nlmsg_pid = 0};
    request.body.sdiag_family = family;
    request.body.sdiag_protocol = IPPROTO_TCP;
    request.body.idiag_ext = 1 << (INET_DIAG_INFO - 1);
    request.body.idiag_states = ~((1u << tcp_listen) | (1u << tcp_time_wait));
    return ::send(socket, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request);
}

void take(Sockets& sockets, const nlmsghdr& message) {
    if (message.nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) return;
    inet_diag_msg socket{};
    const char* data = static_cast<const char*>(NLMSG_DATA(&message));
    std::memcpy(&socket, data, sizeof socket);
    std::size_t left = message.nlmsg_len - NLMSG_LENGTH(sizeof(inet_diag_msg));
    for (const char* at = data + NLMSG_ALIGN(sizeof socket); left >= sizeof(rtattr);) {
        rtattr attribute{};
        std::memcpy(&attribute, at, sizeof attribute);
        const std::size_t length = RTA_ALIGN(attribute.rta_len);
        if (attribute.rta_len < sizeof attribute || attribute.rta_len > left) return;
        if (attribute.rta_type == INET_DIAG_INFO) {
            tcp_info info{};
            std::memcpy(&info, at + RTA_LENGTH(0),
                        std::min<std::size_t>(sizeof info, attribute.rta_len - RTA_LENGTH(0)));
            sockets[socket.idiag_inode] = {.received = static_cast<std::int64_t>(info.tcpi_bytes_received),
                                           .sent = static_cast<std::int64_t>(info.tcpi_bytes_acked)};
        }
        at += length;
        left -= std::min(left, length);
    }
}

enum class Read { more, done, failed };

Read read_some(int socket, Sockets& sockets) {
    alignas(nlmsghdr) std::array<char, answer_most> bytes;
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (got <= 0 || sockets.size() > sockets_most) return Read::failed;
    std::size_t left = static_cast<std::size_t>(got);
    for (const auto* message = reinterpret_cast<const nlmsghdr*>(bytes.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
        if (message->nlmsg_type == NLMSG_DONE) return Read::done;
        if (message->nlmsg_type == NLMSG_ERROR) return Read::failed;
        take(sockets, *message);
    }
    return Read::more;
}

}  // namespace

std::optional<Sockets> tcp_sockets() {
    const storage::Descriptor socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!socket.open()) return std::nullopt;
    const timeval patience{.tv_sec = 2, .tv_usec = 0};
    if (::setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0) return std::nullopt;
    Sockets sockets;
    for (const std::uint8_t family : address_families) {
        if (!request_sockets(socket.number(), family)) return std::nullopt;
        Read read = Read::more;
        while (read == Read::more) read = read_some(socket.number(), sockets);
        if (read == Read::failed && family == AF_INET) return std::nullopt;  // a kernel may lack IPv6
    }
    return sockets;
}

}  // namespace rtrain::agent

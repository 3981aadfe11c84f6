// Links of report groups. A member first sends the attempt that it belongs to (GroupJoin). Its certificate gives its
// name.
#include "daemon/agent/peers/group_links.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t redial_first_ms = 100, redial_last_ms = 5'000;
constexpr int answers_within_ms = 1'000;
constexpr std::string_view node_prefix = "node:";

net::TlsIdentity tls_of(const net::Endpoint& self) {
    return {.certificate_chain = self.certificate + self.ca, .private_key = self.private_key, .ca = self.ca};
}

// Replaces the head's flag in the server's error by the agent's.
Error name_our_flag(Error error) {
    if (error.code == ErrorCode::conflict || error.code == ErrorCode::io)
        error.next = "choose another port for the other agents with --peer-port (0: any that is free)";
    return error;
}

// Returns the stored port; 0 if none was stored.
std::uint16_t kept_port(const std::string& path) {
    std::uint16_t port = 0;
    if (const auto text = read_whole(path)) std::from_chars(text->data(), text->data() + text->size(), port);
    return port;
}

template <class Number>
Number number_in(const net::Request& request, const char* name) {
    Number number = 0;
    if (const auto at = request.query.find(name); at != request.query.end())
        std::from_chars(at->second.data(), at->second.data() + at->second.size(), number);
    return number;
}

AttemptKey attempt_of(const net::Request& request) {
    return {number_in<std::uint64_t>(request, "run"), number_in<std::uint32_t>(request, "incarnation")};
}

using Found = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Found addresses_of(const std::string& host, std::uint16_t port, int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = flags;
    addrinfo* list = nullptr;
    if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) list = nullptr;
    return {list, [](addrinfo* addresses) {
                if (addresses) ::freeaddrinfo(addresses);
            }};
}

std::string own_name(int socket) {
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST] = "";
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0)
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    return text;
}

// Returns the local address of a route to `there`; empty without a route. Sends nothing.
std::string own_end(const addrinfo& there) {
    const int probe = ::socket(there.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    std::string own;
    if (probe >= 0 && ::connect(probe, there.ai_addr, there.ai_addrlen) == 0) own = own_name(probe);
    if (probe >= 0) ::close(probe);
    return own;
}

// Returns the local address of a connection to `there`, which is closed at once; empty if the connection fails.
std::string connected_end(const addrinfo& there) {
    const int probe = ::socket(there.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0) return {};
    int error = ::connect(probe, there.ai_addr, there.ai_addrlen) == 0 ? 0 : errno;
    pollfd writable{.fd = probe, .events = POLLOUT, .revents = 0};
    if (error == EINPROGRESS && ::poll(&writable, 1, answers_within_ms) > 0) {
        socklen_t size = sizeof error;
        ::getsockopt(probe, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    const std::string own = error == 0 ? own_name(probe) : "";
    ::close(probe);
    return own;
}

bool is_ours(const addrinfo& address) {
    const int probe = ::socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool ours = probe >= 0 && ::bind(probe, address.ai_addr, address.ai_addrlen) == 0;
    if (probe >= 0) ::close(probe);
    return ours;
}

}  // namespace

std::string listening_host(const std::string& address, const net::Endpoint& head) {
    const std::string everywhere = "0.0.0.0";
    if (!address.empty()) {
        const Found addresses = addresses_of(address, 0, AI_NUMERICHOST);
        return addresses && is_ours(*addresses) ? address : everywhere;
    }
    // The head sends other agents the address that it sees. A name may have several addresses, and the head may listen
    // only at some of them. The one that answers is used; if none does, the head is not up yet, and the first is used.
    const Found addresses = addresses_of(head.host == "localhost" ? "127.0.0.1" : head.host, head.port, 0);
    std::string own;
    for (const addrinfo* head_address = addresses.get(); head_address != nullptr && own.empty();
         head_address = head_address->ai_next)
        own = connected_end(*head_address);
    if (own.empty() && addresses) own = own_end(*addresses);
    if (!own.empty() && own.find('%') == std::string::npos) return own;
    warn("the way to the head at " + head.host + " is not known yet: other agents are listened for at every address; " +
         "--address names one");
    return everywhere;
}

struct GroupLinks::Dial {
    protocol::PeerNode coordinator;
    std::shared_ptr<net::Socket> socket;
    bool warned = false;
    std::int64_t wait_ms = redial_first_ms;
};

GroupLinks::GroupLinks(net::Loop& loop, net::Endpoint self, Enqueue enqueue)
    : loop_(loop), self_(std::move(self)), enqueue_(std::move(enqueue)) {}

GroupLinks::~GroupLinks() = default;

Result<std::unique_ptr<GroupLinks>> GroupLinks::listen(net::Loop& loop, net::Endpoint self, const Listening& at,
                                                       Enqueue enqueue) {
    net::ServerOptions options{
        .host = at.host, .port = at.port, .identity = tls_of(self), .require_client_certificate = true};
    options.body_limit = 1 << 16;
    options.threads = 1;
    std::unique_ptr<GroupLinks> links(new GroupLinks(loop, std::move(self), std::move(enqueue)));
    auto server = net::Server::listen(
        loop, std::move(options), [raw = links.get()](net::Request request, std::shared_ptr<net::Responder> responder) {
            raw->serve(std::move(request), responder);
        });
    if (!server) return name_our_flag(server.error());
    links->server_ = std::move(*server);
    return links;
}

Result<std::unique_ptr<GroupLinks>> GroupLinks::listen_again(net::Loop& loop, const net::Endpoint& self, Listening at,
                                                             const std::string& kept_at, const Enqueue& enqueue) {
    if (at.port != 0) return listen(loop, self, at, enqueue);
    const std::uint16_t before = at.port = kept_port(kept_at);
    auto links = listen(loop, self, at, enqueue);
    if (!links && before != 0) {
        warn("the agents' port of before, " + std::to_string(before) + ", is in use: " + links.error().message +
             "; another one is taken");
        at.port = 0;
        links = listen(loop, self, at, enqueue);
    }
    if (!links || (*links)->port() == before) return links;
    const Status kept = write_whole(kept_at, std::to_string((*links)->port()) + "\n", 0600, Durable::no);
    if (!kept) return kept.error();
    return links;
}

std::uint16_t GroupLinks::port() const { return server_->port(); }

void GroupLinks::replace_identity(const net::Endpoint& self) {
    self_ = self;
    server_->replace_identity(tls_of(self));
}

void GroupLinks::serve(net::Request request, const std::shared_ptr<net::Responder>& responder) {
    const std::string& name = request.peer.certificate_name;
    if (!name.starts_with(node_prefix))
        return responder->send(
            {.status = 403,
             .body = R"({"code":"unauthorised","message":"only nodes of this cluster may ask an agent"})"});
    if (refused_.contains(request.peer.certificate_serial))
        return responder->send(
            {.status = 403, .body = R"({"code":"unauthorised","message":"this node has left the cluster"})"});
    if (request.path == "/v1/probe")
        return responder->send({.status = 200,
                                .body = probed_(attempt_of(request)) ? R"({"status":"ok","probed":true})"
                                                                     : R"({"status":"ok","probed":false})"});
    if (request.path == "/v1/group" && responder->wants_socket())
        return accept(name.substr(node_prefix.size()), responder);
    responder->send(
        {.status = 404, .body = R"({"code":"not_found","message":"an agent answers /v1/probe and /v1/group"})"});
}

void GroupLinks::accept(const std::string& node, const std::shared_ptr<net::Responder>& responder) {
    auto self = std::make_shared<std::shared_ptr<net::Socket>>();  // held until the socket is closed
    const auto socket = responder->accept_socket({.on_text =
                                                      [this, self, node](const std::string& text) {
                                                          if (const auto member = *self)
                                                              on_member_message(member, node, text);
                                                      },
                                                  .on_closed =
                                                      [this, self, node](const std::string&) {
                                                          if (const auto member = std::exchange(*self, nullptr))
                                                              cut_member(member, node);
                                                      }});
    *self = socket;
}

void GroupLinks::refuse(std::set<std::string> serials) {
    refused_ = std::move(serials);
    std::vector<std::shared_ptr<net::Socket>> ending;
    for (const auto& [who, socket] : members_)
        if (refused_.contains(socket->peer().certificate_serial)) ending.push_back(socket);
    for (const auto& [attempt, dial] : dials_)
        if (dial->socket && refused_.contains(dial->socket->peer().certificate_serial)) ending.push_back(dial->socket);
    for (const auto& socket : ending) socket->close("this node has left the cluster");
}

void GroupLinks::on_member_message(const std::shared_ptr<net::Socket>& socket, const std::string& node,
                                   const std::string& text) {
    auto message = protocol::decode_group(text);
    if (!message) return socket->close(message.error().message);
    std::optional<AttemptKey> attempt;
    for (const auto& [who, member] : members_)
        if (member == socket) attempt = who.first;
    if (const auto* join = std::get_if<protocol::GroupJoin>(&*message)) {
        if (attempt && *attempt != key_of(join->attempt)) return socket->close("a connection is for one attempt");
        attempt = key_of(join->attempt);
        members_[{*attempt, node}] = socket;
    }
    if (!attempt) return socket->close("join first");
    enqueue_(PeerMessage{*attempt, node, std::move(*message)});
}

void GroupLinks::cut_member(const std::shared_ptr<net::Socket>& socket, const std::string& node) {
    const auto entry =
        std::find_if(members_.begin(), members_.end(), [&](const auto& member) { return member.second == socket; });
    if (entry == members_.end()) return;
    const AttemptKey attempt = entry->first.first;
    members_.erase(entry);
    enqueue_(GroupCut{attempt, node});
}

void GroupLinks::dial(AttemptKey attempt, const protocol::PeerNode& coordinator) {
    auto dial = std::make_shared<Dial>();
    dial->coordinator = coordinator;
    auto& current = dials_[attempt];
    const auto before = std::exchange(current, std::move(dial));
    if (before && before->socket) before->socket->close("the coordinator has moved");
    try_dial(attempt);
}

void GroupLinks::dial_later(AttemptKey attempt) {
    const auto entry = dials_.find(attempt);
    if (entry == dials_.end()) return;
    const std::int64_t wait = entry->second->wait_ms;
    if (wait == redial_last_ms && !std::exchange(entry->second->warned, true)) {
        const protocol::PeerNode& peer = entry->second->coordinator;
        warn("the agent of " + peer.node + " at " + peer.address + ":" + std::to_string(peer.port) +
             " cannot be reached; reports wait for it");
    }
    entry->second->wait_ms = std::min(wait * 2, redial_last_ms);
    loop_.after(wait, [this, attempt, alive = std::weak_ptr<int>(alive_)] {
        if (!alive.expired()) try_dial(attempt);
    });
}

void GroupLinks::try_dial(AttemptKey attempt) {
    const auto entry = dials_.find(attempt);
    if (entry == dials_.end() || entry->second->socket) return;
    const std::shared_ptr<Dial> dial = entry->second;
    net::Endpoint endpoint = self_;
    endpoint.host = dial->coordinator.address;
    endpoint.port = dial->coordinator.port;
    endpoint.expected_name = "node:" + dial->coordinator.node;
    const std::weak_ptr<int> alive = alive_;
    const auto is_current = [this, attempt, dial, alive] {
        if (alive.expired()) return false;
        const auto at = dials_.find(attempt);
        return at != dials_.end() && at->second == dial;
    };
    net::SocketEvents events{.on_text =
                                 [this, attempt, is_current](const std::string& text) {
                                     if (!is_current()) return;
                                     auto message = protocol::decode_group(text);
                                     if (message) enqueue_(PeerMessage{attempt, "", std::move(*message)});
                                 },
                             .on_closed =
                                 [this, attempt, dial, is_current](const std::string&) {
                                     dial->socket.reset();
                                     if (!is_current()) return;
                                     enqueue_(GroupCut{attempt, ""});
                                     dial_later(attempt);
                                 }};
    net::dial_socket(loop_, endpoint, "/v1/group", std::move(events),
                     [this, attempt, dial, is_current](Result<std::shared_ptr<net::Socket>> socket) {
                         if (!is_current()) {
                             if (socket) (*socket)->close("the attempt is over");
                             return;
                         }
                         if (!socket) return dial_later(attempt);
                         if (refused_.contains((*socket)->peer().certificate_serial))
                             // Closes the connection, which the other side opens again.
                             return (*socket)->close("this node has left the cluster");
                         dial->socket = *socket;
                         dial->wait_ms = redial_first_ms;
                         dial->warned = false;
                         enqueue_(GroupConnected{attempt});
                     });
}

void GroupLinks::send(AttemptKey attempt, const std::string& node, const protocol::GroupMessage& message) {
    protocol::GroupMessage outgoing = message;
    if (auto* join = std::get_if<protocol::GroupJoin>(&outgoing)) join->attempt = {attempt.run, attempt.incarnation, 0};
    if (node.empty()) {
        const auto entry = dials_.find(attempt);
        if (entry != dials_.end() && entry->second->socket) entry->second->socket->send(protocol::encode(outgoing));
        return;  // closed: unanswered messages are sent again after the next connection
    }
    const auto entry = members_.find({attempt, node});
    if (entry != members_.end()) entry->second->send(protocol::encode(outgoing));
}

void GroupLinks::close(AttemptKey attempt) {
    if (const auto entry = dials_.find(attempt); entry != dials_.end()) {
        const auto socket = entry->second->socket;
        dials_.erase(entry);
        if (socket) socket->close("the attempt is over");
    }
    for (auto at = members_.begin(); at != members_.end();) {
        if (at->first.first != attempt) {
            ++at;
            continue;
        }
        const auto socket = at->second;
        at = members_.erase(at);
        socket->close("the attempt is over");
    }
}

}  // namespace rtrain::agent

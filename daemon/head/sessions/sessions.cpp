// Handles connections of agents and their leases: see sessions.hpp.
#include "daemon/head/sessions/sessions.hpp"

#include <algorithm>

#include "daemon/head/sessions/counting.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

std::string without_port(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    std::string host = colon == std::string::npos ? address : address.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    return host;
}

}  // namespace

void Sessions::start() {
    const std::int64_t now = monotonic_ms();
    for (const auto& [id, node] : uses_.view.cluster.nodes) {
        seen_[id.value].heard_ms = now;
        leases_.known(id.value, now);
        addresses_.known(id.value, node.address);  // the notices were added when these nodes registered first
    }
    leases_checked_ms_ = now;
    next_clear_ = std::stoull(security::random_hex(8), nullptr, 16) >> 1;
    check_leases();
}

void Sessions::accept(const net::Request& request, const std::shared_ptr<net::Responder>& responder,
                      const std::string& node) {
    const std::uint64_t id = next_session_++;
    // A message is decoded by its connection's thread, since there may be thousands of agents and there is only one
    // loop.
    const auto read = [this, node, id](const std::string& text) -> net::Loop::Task {
        const auto message = std::make_shared<Result<protocol::FromAgent>>(protocol::decode_from_agent(text));
        if (*message) check_metrics(**message);
        return [this, node, id, message] { on_message(node, id, std::move(*message)); };
    };
    auto socket = responder->accept_socket(
        {.on_text = {}, .on_closed = [this, node, id](const std::string&) { closed(node, id); }, .read = read});
    if (!socket) return;
    Session fresh;
    fresh.id = id;
    fresh.socket = std::move(socket);
    fresh.far_address = without_port(request.peer.address);
    fresh.serial = request.peer.certificate_serial;
    Session& place = sessions_[node];
    if (place.socket) place.socket->close("replaced by a newer connection of this node");
    place = std::move(fresh);
}

void Sessions::closed(const std::string& node, std::uint64_t session) {
    const auto entry = sessions_.find(node);
    // the closed connection is an old one, which a newer session has replaced
    if (entry == sessions_.end() || entry->second.id != session) return;
    sessions_.erase(entry);
    seen_[node].connected = false;
    leases_.connected(node, false);
}

void Sessions::refuse(Session& session, protocol::Refuse refusal) {
    const std::string why = refusal.message;
    session.socket->send(protocol::encode(protocol::FromHead{std::move(refusal)}));
    session.socket->close(why);
}

void Sessions::send(const std::string& node, const protocol::FromHead& message) {
    const auto entry = sessions_.find(node);
    if (entry == sessions_.end() || !entry->second.registered) return;
    if (!entry->second.socket->send(protocol::encode(message)))
        entry->second.socket->close("more waits to be sent than a connection may hold");
}

void Sessions::dismiss(const std::string& node, const std::string& why) {
    if (auto entry = sessions_.find(node); entry != sessions_.end())
        refuse(entry->second,
               {.message = why, .next = "rtrain node join ... with a new token brings it back", .left = true});
    seen_.erase(node);
    leases_.forget(node);
    addresses_.forget(node);
}

bool Sessions::connected(const std::string& node) const {
    const auto entry = sessions_.find(node);
    return entry != sessions_.end() && entry->second.registered;
}

const NodeSeen* Sessions::seen(const std::string& node) const {
    const auto entry = seen_.find(node);
    return entry == seen_.end() ? nullptr : &entry->second;
}

const std::vector<protocol::AttemptRef>& Sessions::held(const std::string& node) const {
    static const std::vector<protocol::AttemptRef> none;
    const auto entry = sessions_.find(node);
    return entry == sessions_.end() ? none : entry->second.held;
}

void Sessions::acknowledge() {
    uses_.news.acknowledge([this](const std::string& node, std::uint64_t durable) {
        const auto session = sessions_.find(node);
        if (session == sessions_.end() || !session->second.registered || session->second.acknowledged == durable)
            return;
        session->second.acknowledged = durable;
        send(node, protocol::NewsAck{durable});
    });
}

void Sessions::close_all(const std::string& why) {
    for (auto& [node, session] : sessions_) session.socket->close(why);
    sessions_.clear();
}

void Sessions::clear(const std::string& node, protocol::Clear order, std::int64_t patience_ms, Then then) {
    if (!connected(node)) return then({.error = "it is not connected"});
    order.id = next_clear_++;
    clearing_[order.id] = {node, std::move(then)};
    send(node, order);
    uses_.background.after(std::max<std::int64_t>(patience_ms, 0), [this, node, id = order.id] {
        cleared(node, {.id = id, .error = "it has not answered in time"});
    });
}

void Sessions::cleared(const std::string& node, const protocol::Cleared& answer) {
    const auto entry = clearing_.find(answer.id);
    // the answer is late, or belongs to another node's request
    if (entry == clearing_.end() || entry->second.node != node) return;
    const auto then = std::move(entry->second.then);
    clearing_.erase(entry);
    then(answer);
}

// Sends the serials of revoked certificates to an agent. A simulated node, which its facts show, gets none, since it
// accepts no connections.
void Sessions::send_revoked(const std::string& node) {
    if (!seen_[node].facts.contains("simulated")) send(node, protocol::Revoked{revoked_});
}

void Sessions::revoke(std::vector<std::string> serials) {
    revoked_ = std::move(serials);
    for (const auto& [node, session] : sessions_)
        if (session.registered) send_revoked(node);
}

// Closes the connection of a lost node. After a network failure the old connection may work again, but a lost node must
// register first.
void Sessions::hang_up(const std::string& node, const std::string& why) {
    const auto entry = sessions_.find(node);
    if (entry == sessions_.end()) return;
    entry->second.socket->close("the node was taken for lost: " + why);
    sessions_.erase(entry);
    seen_[node].connected = false;
    leases_.connected(node, false);
}

}  // namespace rtrain::head

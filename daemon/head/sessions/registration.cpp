// Handles an agent's hello and registration (sessions.hpp).
#include <algorithm>
#include <set>

#include "daemon/head/events/news.hpp"
#include "daemon/head/sessions/sessions.hpp"

namespace rtrain::head {

void Sessions::welcome(const std::string& node, Session& session, const protocol::Hello& hello) {
    if (hello.node != node)
        return refuse(session, {"the certificate is for node '" + node + "', the agent says it is '" + hello.node + "'",
                                "join again under the new name: rtrain node join"});
    if (hello.min_protocol > protocol::version || hello.protocol < protocol::oldest_version)
        return refuse(session, {"this head speaks protocol " + std::to_string(protocol::oldest_version) + " to " +
                                    std::to_string(protocol::version) + ", the agent " +
                                    std::to_string(hello.min_protocol) + " to " + std::to_string(hello.protocol),
                                "upgrade the older of the two"});
    if (uses_.tokens.left(node))
        return refuse(session, {.message = "node '" + node + "' has left the cluster",
                                .next = "rtrain node join ... with a new token",
                                .left = true});
    session.welcomed = true;
    seen_[node].program_version = hello.program_version;
    const protocol::Welcome answer{.protocol = std::min(hello.protocol, protocol::version),
                                   .cluster_id = uses_.view.cluster.meta.cluster_id,
                                   .heartbeat_ms = uses_.options.heartbeat_ms,
                                   .node_timeout_ms = uses_.options.node_timeout_ms,
                                   .news_seen = uses_.news.durable(node)};
    session.socket->send(protocol::encode(protocol::FromHead{answer}));
}

void Sessions::register_node(const std::string& node, Session& session, const protocol::Register& registration) {
    if (uses_.revocations.revoked(session.serial))  // the certificate was revoked after the connection was made
        return refuse(session, {.message = "the certificate of node '" + node + "' was revoked",
                                .next = "rtrain node join ... with a new token",
                                .left = true});
    if (const auto far = out_of_bounds(registration.total))
        return refuse(session, {.message = "node '" + node + "' offers " + *far,
                                .next = "join it again with less: rtrain node join HOST:PORT --resources NAME=AMOUNT"});
    uses_.revocations.issued(node, session.serial);  // the certificate is older than the list of issued serials
    uses_.news.begin(node, registration.next_news);
    session.registered = true;
    session.held = registration.held;
    NodeSeen& seen = seen_[node];
    seen.connected = true;
    seen.gpu_model = registration.gpu_model;
    seen.facts = registration.facts;
    Event event = registered(uses_.view.cluster, NodeId{node}, registration, session.far_address);
    send_moved(node, std::get<NodeRegistered>(event));
    check_address(std::get<NodeRegistered>(event));
    send_peers(node, session);
    send_revoked(node);
    uses_.events.take(std::move(event));
    if (registration.leaving) take_leaving(node, *registration.leaving);
    const bool dials = !seen.facts.contains("simulated");
    uses_.durability.once_written([this, node, dials] {  // the node's address is in the records now
        if (connected(node)) dial(leases_.registered(node, monotonic_ms(), dials).dial);
    });
}

// Sends an agent's new address or port to the other nodes of its attempts.
void Sessions::send_moved(const std::string& node, const NodeRegistered& now) {
    const auto before = uses_.view.cluster.nodes.find(NodeId{node});
    if (before == uses_.view.cluster.nodes.end()) return;
    if (before->second.address == now.address && before->second.port == now.port) return;
    const protocol::PeerMoved news{.node = node, .address = now.address, .port = now.port};
    for (const auto& [other, session] : sessions_)
        if (session.registered && other != node) send(other, news);
}

// Adds a notice if other nodes cannot reach the registered address. /v1/nodes shows the warning as long as that is so.
void Sessions::check_address(const NodeRegistered& now) {
    if (const auto warning = addresses_.known(now.node.value, now.address))
        uses_.events.note({.wall_ms = wall_ms(),
                           .text = warning->text,
                           .about_run = std::nullopt,
                           .about_node = NodeId{warning->node}});
}

// Sends the present addresses of its peers to a node, which may have missed changes while it was disconnected.
void Sessions::send_peers(const std::string& node, const Session& session) {
    std::set<NodeId> peers;
    for (const protocol::AttemptRef& ref : session.held)
        if (const Attempt* attempt = find_attempt(uses_.view.cluster, ref)) {
            std::set<NodeId> nodes;
            for (const Worker& worker : attempt->workers) nodes.insert(worker.seat.node);
            // only peers of attempts in which the node takes part
            if (nodes.contains(NodeId{node})) peers.merge(nodes);
        }
    for (const NodeId& peer : peers) {
        const auto known = uses_.view.cluster.nodes.find(peer);
        if (peer.value == node || known == uses_.view.cluster.nodes.end() || known->second.address.empty()) continue;
        send(node,
             protocol::PeerMoved{.node = peer.value, .address = known->second.address, .port = known->second.port});
    }
}

}  // namespace rtrain::head

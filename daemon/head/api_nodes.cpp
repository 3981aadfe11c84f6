// Nodes: what they have, what is free, and taking them in and out of service.
#include "daemon/head/api.hpp"
#include "daemon/head/view_json.hpp"

namespace rtrain::head {
namespace {

void reply_node(Ask& ask, const NodeId& id) {
    const auto node = ask.head.cluster.nodes.find(id);
    if (node == ask.head.cluster.nodes.end())
        return refuse(ask, {ErrorCode::not_found, "no node is called '" + id.value + "'", "rtrain nodes"});
    Ledger made;
    reply_json(ask, 200, node_json(ask.head, node->second, in_step(ask.head.cluster, made)));
}

// Does what a person asked of a node, and answers with the node as it is then.
void change_node(Ask& ask, Event event) {
    ask.head.take(std::move(event), [kept = ask](const Decision& decision) mutable {
        if (decision.refused) return refuse(kept, *decision.refused);
        reply_node(kept, NodeId{kept.variables["node"]});
    });
}

}  // namespace

void get_nodes(Ask& ask) {
    std::vector<NodeId> names;
    for (const auto& [name, node] : ask.head.cluster.nodes) names.push_back(name);
    const std::size_t count = names.size();
    reply_list(ask, count, [&head = ask.head, names = std::move(names)](std::size_t i) -> json {
        const auto node = head.cluster.nodes.find(names[i]);
        if (node == head.cluster.nodes.end()) return nullptr;
        Ledger made;
        return node_json(head, node->second, in_step(head.cluster, made));
    });
}

void get_node(Ask& ask) { reply_node(ask, NodeId{ask.variables["node"]}); }

void post_drain(Ask& ask) {
    const auto body = body_of(ask);
    if (!body) return refuse(ask, body.error());
    const json reason = body->value("reason", json(""));
    if (!reason.is_string()) return refuse(ask, {ErrorCode::usage, "reason must be a string", ""});
    const json deadline = body->value("deadline_ms", json());
    if (!deadline.is_null() && !(deadline.is_number_unsigned() && deadline.get<double>() < 4e10))
        return refuse(ask, {ErrorCode::usage, "deadline_ms must be a whole number of milliseconds", ""});
    NodeDrained event{.node = NodeId{ask.variables["node"]}, .by = ask.caller.user, .reason = reason};
    if (!deadline.is_null()) event.deadline = Duration{deadline.get<std::int64_t>()};
    change_node(ask, std::move(event));
}

void post_undrain(Ask& ask) { change_node(ask, NodeUndrained{NodeId{ask.variables["node"]}}); }

// Its certificates are revoked, here and with every agent; only a new join token brings it back.
void post_leave(Ask& ask) {
    const std::string node = ask.variables["node"];
    if (!ask.head.cluster.nodes.contains(NodeId{node})) return reply_node(ask, NodeId{node});
    ask.head.revocations.revoke(node);
    ask.head.save(
        {.tokens = {}, .settings = {{"left/" + node, "1"}}, .done = {}});  // shares the commit of what follows
    ask.head.take(NodeLeft{NodeId{node}}, [kept = ask, node](const Decision& decision) mutable {
        if (decision.refused) return refuse(kept, *decision.refused);
        kept.head.agents.dismiss(node, "node '" + node + "' has left the cluster");
        reply_json(kept, 200, {{"node", node}, {"state", "LEFT"}});
    });
}

}  // namespace rtrain::head

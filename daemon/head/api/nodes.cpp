// Nodes: their resources, their actions (drain, quarantine, undrain, leave), and the endpoint of their agents.
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/autoscale/autoscaler.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/sessions/sessions.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t xids_of_device_most = 32;  // the most kinds of errors (Xid) that are shown for each GPU

// Returns a number of an agent's message as JSON. Returns null for a number below 0, which an agent sends for
// "unknown".
json known_or_null(std::int64_t value, double units_per_one) {
    return value < 0 ? json() : json(static_cast<double>(value) / units_per_one);
}

void add_live(json& device, const protocol::GpuHeartbeat& gpu) {
    device["uuid"] = gpu.uuid;
    device["utilization_ratio"] = known_or_null(gpu.utilization_percent, 100);
    device["memory_used"] = gpu.answers() ? json(gpu.memory_used) : json();
    device["memory_total"] = gpu.answers() ? json(gpu.memory_total) : json();
    device["power_watts"] = known_or_null(gpu.power_mw, 1'000);
    device["temperature_celsius"] = known_or_null(gpu.temperature_c, 1);
    device["ecc_errors"] = known_or_null(gpu.ecc_uncorrected, 1);
    device["foreign_processes"] = known_or_null(gpu.foreign_processes, 1);
    json xids = json::object();
    for (const auto& [xid, count] : gpu.xids)
        if (xids.size() < xids_of_device_most) xids[std::to_string(xid)] = count;
    device["xids"] = std::move(xids);
}

// Returns an entry for each GPU: its holders with their amounts, the free amount, and the values of NVML if there are
// any.
json devices_json(const View& view, const Node& node, const NodeView& capacity, const ClusterIndex& index,
                  const protocol::Heartbeat& heartbeat) {
    std::vector<json> held_by(node.gpus, json::array());
    for (const AttemptId& id : index.on_node(node.id)) {
        const auto& by_node = index.allocated_to(id);
        const auto here = by_node.find(node.id);
        if (here == by_node.end()) continue;
        for (const GpuShare& share : here->second.second)
            if (share.device < held_by.size())
                held_by[share.device].push_back({{"run", view.cluster.runs.at(id.run).name},
                                                 {"run_id", view.run_id(id.run)},
                                                 {"amount", to_text(share.amount)}});
    }
    json devices = json::array();
    for (std::uint32_t i = 0; i < node.gpus; ++i) {
        const Amount free = i < capacity.gpus_free.size() ? capacity.gpus_free[i] : Amount{};
        json device = {{"index", i}, {"free", to_text(free)}, {"held_by", std::move(held_by[i])}};
        if (i < heartbeat.gpus.size()) add_live(device, heartbeat.gpus[i]);
        devices.push_back(std::move(device));
    }
    return devices;
}

json node_json(const View& view, const Caller& caller, const Sessions& sessions, const Node& node,
               const ClusterIndex& index) {
    const NodeSeen unknown;
    const NodeSeen* seen = sessions.seen(node.id.value);
    const NodeSeen& known = seen ? *seen : unknown;
    std::set<std::string> runs;
    for (const AttemptId& id : index.on_node(node.id)) runs.insert(view.cluster.runs.at(id.run).name);
    const NodeView* capacity = index.node(node.id);
    RTRAIN_CHECK(capacity != nullptr, "node " + node.id.value + " is not in the cluster index");
    const std::string at_its_address = sessions.addresses().warning(node.id.value);
    Amount gpus_free;
    for (const Amount free_amount : capacity->gpus_free) gpus_free = gpus_free + free_amount;
    return {{"node", node.id.value},
            {"state", to_text(shown_state(node))},
            {"connected", known.connected},
            {"address", node.address},
            {"port", node.port},
            {"resources", resources_json(node.total)},
            {"free", resources_json(capacity->free)},
            {"gpus", node.gpus},
            {"gpus_free", to_text(gpus_free)},
            {"gpu_model", known.gpu_model},
            {"gpu_devices", devices_json(view, node, *capacity, index, known.heartbeat)},
            {"labels", node.labels},
            {"registered", time_json(view, node.registered)},
            {"last_heartbeat_ms", known.heard_ms == 0 ? json() : json(monotonic_ms() - known.heard_ms)},
            {"reason", why_out_of_use(node, is_admin(caller) ? JobWords::shown : JobWords::hidden)},
            {"reason_kind", kind_json(node.state_reason)},
            {"warnings", at_its_address.empty() ? json::array() : json::array({at_its_address})},
            {"drain_deadline", node.drain_deadline ? time_json(view, *node.drain_deadline) : json()},
            {"failures", node.failures.size()},
            {"memory_used", known.heartbeat.memory_used},
            {"memory_total", known.heartbeat.memory_total},
            {"version", known.program_version},
            {"runs", runs},
            {"facts", known.facts}};
}

void reply_node(Exchange& exchange, const Sessions& sessions, const NodeId& id) {
    const auto node = exchange.view.cluster.nodes.find(id);
    if (node == exchange.view.cluster.nodes.end())
        return refuse(exchange, {ErrorCode::not_found, "no node is called '" + id.value + "'", "rtrain nodes"});
    ClusterIndex scratch;
    reply_json(
        exchange, 200,
        node_json(exchange.view, exchange.caller, sessions, node->second, in_step(exchange.view.cluster, scratch)));
}

// Passes the event to the core, and answers with the node after the decision.
void change_node(Exchange& exchange, const Sessions& sessions, Event event) {
    exchange.events.take(std::move(event), [kept = exchange, &sessions](const Decision& decision) mutable {
        if (decision.refused) return refuse(kept, *decision.refused);
        reply_node(kept, sessions, NodeId{kept.variables["node"]});
    });
}

Result<std::string> reason_in(const json& body) {
    const json reason = body.value("reason", json(""));
    if (reason.is_string()) return reason.get<std::string>();
    return Error{ErrorCode::usage, "reason must be a string", ""};
}

}  // namespace

void get_nodes(Exchange& exchange, const Sessions& sessions) {
    std::vector<NodeId> names;
    for (const auto& [name, node] : exchange.view.cluster.nodes) names.push_back(name);
    const std::size_t count = names.size();
    reply_list(
        exchange, count,
        [&view = exchange.view, caller = exchange.caller, &sessions, names = std::move(names)](std::size_t i) -> json {
            const auto node = view.cluster.nodes.find(names[i]);
            if (node == view.cluster.nodes.end()) return nullptr;
            ClusterIndex scratch;
            return node_json(view, caller, sessions, node->second, in_step(view.cluster, scratch));
        });
}

void get_node(Exchange& exchange, const Sessions& sessions) {
    reply_node(exchange, sessions, NodeId{exchange.variables["node"]});
}

void post_drain(Exchange& exchange, const Sessions& sessions) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const auto reason = reason_in(*body);
    if (!reason) return refuse(exchange, reason.error());
    const json deadline = body->value("deadline_ms", json());
    if (!deadline.is_null() && !(deadline.is_number_unsigned() && deadline.get<double>() < 4e10))
        return refuse(exchange, {ErrorCode::usage, "deadline_ms must be a whole number of milliseconds", ""});
    NodeDrained event{.node = NodeId{exchange.variables["node"]}, .by = exchange.caller.user, .reason = *reason};
    if (!deadline.is_null()) event.deadline = Duration{deadline.get<std::int64_t>()};
    change_node(exchange, sessions, std::move(event));
}

void post_quarantine(Exchange& exchange, const Sessions& sessions) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const auto reason = reason_in(*body);
    if (!reason) return refuse(exchange, reason.error());
    change_node(
        exchange, sessions,
        NodeQuarantined{.node = NodeId{exchange.variables["node"]}, .by = exchange.caller.user, .reason = *reason});
}

// Undrains a node. Refuses while the node's machine is being released, since new workers on it would end with the
// machine.
void post_undrain(Exchange& exchange, const Sessions& sessions, const Autoscaler& autoscaler) {
    const std::string& node = exchange.variables["node"];
    if (autoscaler.releases(node))
        return refuse(exchange, {ErrorCode::conflict, "the machine of node '" + node + "' is being given back",
                                 "rtrain events tells how it ended"});
    change_node(exchange, sessions, NodeUndrained{NodeId{exchange.variables["node"]}});
}

// Removes the node from the cluster. Revokes its certificates at the head and at every agent, so it can only return
// with a new join token.
void post_leave(Exchange& exchange, Sessions& sessions, TokenBook& tokens, Revocations& revocations) {
    const std::string node = exchange.variables["node"];
    if (!exchange.view.cluster.nodes.contains(NodeId{node})) return reply_node(exchange, sessions, NodeId{node});
    revocations.revoke(node);
    tokens.set_left(node, true);
    exchange.events.save(
        // this setting becomes durable together with the event below
        {.tokens = {}, .settings = {{"left/" + node, "1"}}, .done = {}});
    sessions.take_lost_checkpoints(node, "left the cluster");
    exchange.events.take(NodeLeft{NodeId{node}}, [kept = exchange, &sessions, node](const Decision& decision) mutable {
        if (decision.refused) return refuse(kept, *decision.refused);
        sessions.dismiss(node, "node '" + node + "' has left the cluster");
        reply_json(kept, 200, {{"node", node}, {"state", "LEFT"}});
    });
}

// Accepts the WebSocket of an agent, whose certificate names its node.
void get_agents(Exchange& exchange, Sessions& sessions) {
    if (!exchange.responder->wants_socket())
        return refuse(exchange, {ErrorCode::usage, "/v1/agents is a WebSocket", "rtrain node join starts an agent"});
    sessions.accept(exchange.request, exchange.responder, exchange.caller.node);
}

}  // namespace rtrain::head

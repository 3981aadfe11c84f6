// Handles agents' messages (sessions.hpp). Each message is checked first (events/node_rights.hpp).
#include <algorithm>
#include <cstdio>

#include "daemon/head/events/news.hpp"
#include "daemon/head/events/node_rights.hpp"
#include "daemon/head/sessions/sessions.hpp"

namespace rtrain::head {
namespace {

// ms between two log lines about messages that one node may not send
constexpr std::int64_t objection_pause_ms = 60'000;
// the most bytes of a node's text about its disk, which is stored in the records
constexpr std::size_t disk_text_most = 500;

// Returns the ranks in a heartbeat, as index and place, with the GPUs of each.
std::vector<std::pair<std::size_t, WorkerPlace>> places_of(const Cluster& cluster,
                                                           const protocol::Heartbeat& heartbeat) {
    std::vector<std::pair<std::size_t, WorkerPlace>> out;
    for (std::size_t i = 0; i < heartbeat.workers.size(); ++i) {
        const protocol::WorkerHeartbeat& worker = heartbeat.workers[i];
        const Attempt* attempt = find_attempt(cluster, worker.attempt);
        if (!attempt || terminal(attempt->state) || worker.rank >= attempt->workers.size()) continue;
        WorkerPlace place{.run = attempt->id.run, .rank = worker.rank, .gpus = {}};
        for (const GpuShare& share : attempt->workers[worker.rank].seat.gpus) place.gpus.push_back(share.device);
        out.emplace_back(i, std::move(place));
    }
    return out;
}

// Returns the time at which the node read the chunk, but no time in the future.
std::int64_t line_time(const protocol::LogChunk& chunk) {
    return chunk.wall_ms > 0 ? std::min(chunk.wall_ms, wall_ms()) : wall_ms();
}

// Returns the answer to a log of an attempt without a record, for example after a backup was restored. The answer does
// not acknowledge the log, so the node keeps it as long as any undelivered log.
protocol::FromHead keep_it(const protocol::LogChunk& chunk) {
    return protocol::LogAck{
        .attempt = chunk.attempt, .rank = chunk.rank, .stream = chunk.stream, .offset = 0, .later = true};
}

}  // namespace

void Sessions::on_message(const std::string& node, std::uint64_t id, Result<protocol::FromAgent> message) {
    const auto entry = sessions_.find(node);
    if (entry == sessions_.end() || entry->second.id != id) return;
    Session& session = entry->second;
    if (!message) return refuse(session, {message.error().message, message.error().next});
    NodeSeen& seen = seen_[node];
    seen.heard_ms = monotonic_ms();
    leases_.heard(node, seen.heard_ms);
    if (const auto* hello = std::get_if<protocol::Hello>(&*message)) return welcome(node, session, *hello);
    if (!session.welcomed) return refuse(session, {"hello comes first"});
    if (const auto* full = std::get_if<protocol::Register>(&*message)) return register_node(node, session, *full);
    if (!session.registered) return refuse(session, {"register comes before news, heartbeats and logs"});
    const auto why_not = objection(uses_.view.cluster, NodeId{node}, *message);
    if (auto* sign = std::get_if<protocol::Heartbeat>(&*message); sign && !why_not)
        take_heartbeat(node, std::move(*sign));
    if (const auto* news = std::get_if<protocol::News>(&*message)) take_news(node, *news);
    if (const auto* batch = std::get_if<protocol::NewsBatch>(&*message))
        for (const protocol::News& news : batch->items) take_news(node, news);
    uses_.events.decide_when_full();
    const bool unknown = why_not && of_unknown_attempt(uses_.view.cluster, *message);
    if (const auto* chunk = std::get_if<protocol::LogChunk>(&*message))
        unknown ? send(node, keep_it(*chunk)) : take_log(node, *chunk, !why_not);
    // true: take_news has already reported an objection to it
    const bool news = std::holds_alternative<protocol::News>(*message);
    if (why_not && !news && !unknown) object(node, *why_not);
    take_of_node(node, *message);
}

// Handles messages in which a node reports about itself, or answers a request of this head.
void Sessions::take_of_node(const std::string& node, const protocol::FromAgent& message) {
    if (const auto* answer = std::get_if<protocol::Cleared>(&message)) cleared(node, *answer);
    if (const auto* answer = std::get_if<protocol::PeerDialled>(&message))
        leases_.dialled(answer->id, node, answer->answered);
    if (const auto* wish = std::get_if<protocol::Leaving>(&message)) take_leaving(node, *wish);
}

// Drains the node of an agent that must end: its runs move, or are ended shortly before the agent is.
void Sessions::take_leaving(const std::string& node, const protocol::Leaving& wish) {
    uses_.events.take(NodeDrained{.node = NodeId{node},
                                  .by = node,
                                  .reason = "its agent ends: " + wish.why,
                                  .deadline = Duration{std::max<std::int64_t>(wish.left_ms, 0)},
                                  .by_itself = true});
}

// Drains a node while its heartbeats report a nearly full disk. Does nothing if the node is in another state, since the
// next heartbeat repeats the report.
void Sessions::take_disk(const NodeId& node, const std::string& full) {
    const auto known = uses_.view.cluster.nodes.find(node);
    if (known == uses_.view.cluster.nodes.end()) return;
    const Node& now = known->second;
    if (!full.empty() && now.state == NodeState::ready)
        uses_.events.take(
            NodeDrained{.node = node, .by = node.value, .reason = full.substr(0, disk_text_most), .by_disk = true});
    const auto* drained = std::get_if<reasons::DrainedBy>(&now.state_reason.value());
    if (full.empty() && now.state == NodeState::draining && drained && drained->by_disk)
        uses_.events.take(NodeUndrained{.node = node, .by_disk = true});
}

// Stores the waits that the heartbeat contains. They become durable at intervals; if no event causes a commit then,
// this function does.
void Sessions::take_heartbeat(const std::string& node, protocol::Heartbeat heartbeat) {
    const std::int64_t now = monotonic_ms();
    uses_.waits.take(uses_.view.cluster, NodeId{node}, heartbeat, now);
    uses_.history.heard({.node = node,
                         .wall_ms = wall_ms(),
                         .monotonic_ms = now,
                         .heartbeat = heartbeat,
                         .workers = places_of(uses_.view.cluster, heartbeat)});
    take_disk(NodeId{node}, heartbeat.full_disk);
    seen_[node].heartbeat = std::move(heartbeat);
    if (uses_.waits.due(now)) uses_.durability.once_written([] {});
}

void Sessions::take_news(const std::string& node, const protocol::News& news) {
    if (const auto why_not = uses_.news.take(node, news)) object(node, *why_not);
}

// Handles a message that the node may not send: drops and acknowledges it. After a restored backup, even an honest
// agent may send messages about attempts that the head has since placed elsewhere. Without an acknowledgement the agent
// would repeat them for ever.
void Sessions::object(const std::string& node, const std::string& why) {
    NodeSeen& seen = seen_[node];
    ++seen.objections;
    const std::int64_t now = monotonic_ms();
    if (seen.objected_ms != 0 && now - seen.objected_ms < objection_pause_ms) return;
    seen.objected_ms = now;
    const std::string text = "security: node " + node + " spoke of what is not its own, and was not believed: " + why +
                             " (" + std::to_string(seen.objections) + " messages so far)";
    std::fprintf(stderr, "rtrain head: %s\n", text.c_str());
    uses_.events.note({.wall_ms = wall_ms(), .text = text, .about_run = std::nullopt, .about_node = NodeId{node}});
    uses_.events.later_acknowledge();
}

void Sessions::take_log(const std::string& node, const protocol::LogChunk& chunk, bool its_own) {
    const Attempt* attempt = find_attempt(uses_.view.cluster, chunk.attempt);
    LogStore::Piece piece{.name = {.run = RunId{chunk.attempt.run},
                                   .attempt = attempt ? attempt->id.number : chunk.attempt.number,
                                   .rank = chunk.rank,
                                   .stream = chunk.stream},
                          .offset = chunk.offset,
                          .bytes = chunk.bytes,
                          .lost = chunk.lost,
                          .last = chunk.last,
                          .wall_ms = line_time(chunk)};
    const LogIntake::Source from{.node = node, .attempt = chunk.attempt};
    // The run was removed, so its logs are not needed, and the agent may drop them.
    if (!its_own || !uses_.view.cluster.runs.contains(piece.name.run))
        return uses_.logs.let_go(piece.name, from, chunk.offset + chunk.bytes.size() + chunk.lost);
    piece.user = uses_.view.cluster.runs.at(piece.name.run).user;
    uses_.logs.take(std::move(piece), from);
}

}  // namespace rtrain::head

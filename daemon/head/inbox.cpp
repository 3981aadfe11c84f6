// What agents say. News are numbered: a number that was seen is dropped; all are acknowledged once durable.
#include <algorithm>
#include <cstdio>
#include <set>

#include "daemon/head/counting.hpp"
#include "daemon/head/reach.hpp"
#include "daemon/head/shell.hpp"
#include "daemon/head/words.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t put_off_ms = 2'000;
constexpr std::size_t log_bytes_max = 64 << 20;      // wait for their files; more stays on its node
constexpr std::int64_t objection_pause_ms = 60'000;  // of one node it is said so often at most

const std::string seen_prefix = "news_seen/";

// When the node saw it; a clock that runs ahead of ours is not believed.
std::int64_t line_time(const protocol::LogChunk& chunk) {
    return chunk.wall_ms > 0 ? std::min(chunk.wall_ms, wall_ms()) : wall_ms();
}

// The answer to a log of an attempt that the head does not know (any more: a backup was restored). It has no place
// here, and is not acknowledged: the node keeps it for as long as any log that nobody took.
protocol::FromHead keep_it(const protocol::LogChunk& chunk) {
    return protocol::LogAck{
        .attempt = chunk.attempt, .rank = chunk.rank, .stream = chunk.stream, .offset = 0, .later = true};
}

}  // namespace

void Agents::heard(const std::string& node, std::uint64_t id, Result<protocol::FromAgent> message) {
    const auto found = sessions_.find(node);
    if (found == sessions_.end() || found->second.id != id) return;
    Session& session = found->second;
    if (!message) return refuse(session, {message.error().message, message.error().next});
    NodeSeen& seen = seen_[node];
    seen.heard_ms = monotonic_ms();
    if (const auto* hello = std::get_if<protocol::Hello>(&*message)) return welcome(node, session, *hello);
    if (!session.welcomed) return refuse(session, {"hello comes first"});
    if (const auto* said = std::get_if<protocol::Register>(&*message)) return register_node(node, session, *said);
    if (!session.registered) return refuse(session, {"register comes before news, heartbeats and logs"});
    const auto why_not = objection(head_.cluster, NodeId{node}, *message);
    if (auto* pulse = std::get_if<protocol::Heartbeat>(&*message); pulse && !why_not) seen.pulse = std::move(*pulse);
    if (const auto* news = std::get_if<protocol::News>(&*message)) take_news(node, *news);
    if (const auto* batch = std::get_if<protocol::NewsBatch>(&*message))
        for (const protocol::News& news : batch->items) take_news(node, news);
    head_.turn_when_full();
    const bool unknown = why_not && of_unknown_attempt(head_.cluster, *message);
    if (const auto* chunk = std::get_if<protocol::LogChunk>(&*message))
        unknown ? send(node, keep_it(*chunk)) : take_log(node, *chunk, !why_not);
    const bool news = std::holds_alternative<protocol::News>(*message);  // take_news has told of it
    if (why_not && !news && !unknown) object(node, *why_not);
    if (const auto* said = std::get_if<protocol::Cleared>(&*message)) cleared(node, *said);
}

// Reads the number of each node's last news that is on disk, so that no agent's message waits for the disk later.
void Agents::recall_news() {
    for (const auto& [key, number] : head_.journal->settings(seen_prefix)) {
        Inbox& box = inboxes_[key.substr(seen_prefix.size())];
        box.received = box.durable = std::strtoull(number.c_str(), nullptr, 10);
    }
}

void Agents::welcome(const std::string& node, Session& session, const protocol::Hello& hello) {
    if (hello.node != node)
        return refuse(session, {"the certificate is for node '" + node + "', the agent says it is '" + hello.node + "'",
                                "join again under the new name: rtrain node join"});
    if (hello.min_protocol > protocol::version || hello.protocol < protocol::oldest_version)
        return refuse(session, {"this head speaks protocol " + std::to_string(protocol::oldest_version) + " to " +
                                    std::to_string(protocol::version) + ", the agent " +
                                    std::to_string(hello.min_protocol) + " to " + std::to_string(hello.protocol),
                                "upgrade the older of the two"});
    if (head_.tokens.left(node))
        return refuse(session, {.message = "node '" + node + "' has left the cluster",
                                .next = "rtrain node join ... with a new token",
                                .left = true});
    session.welcomed = true;
    seen_[node].program_version = hello.program_version;
    const protocol::Welcome answer{.protocol = std::min(hello.protocol, protocol::version),
                                   .cluster_id = head_.cluster.meta.cluster_id,
                                   .heartbeat_ms = head_.options.heartbeat_ms,
                                   .node_timeout_ms = head_.options.node_timeout_ms,
                                   .news_seen = inboxes_[node].durable};
    session.socket->send(protocol::encode(protocol::FromHead{answer}));
}

void Agents::register_node(const std::string& node, Session& session, const protocol::Register& said) {
    if (head_.revocations.revoked(session.serial))  // since it dialled
        return refuse(session, {.message = "the certificate of node '" + node + "' was revoked",
                                .next = "rtrain node join ... with a new token",
                                .left = true});
    if (const auto far = out_of_bounds(said.total))
        return refuse(session, {.message = "node '" + node + "' offers " + *far,
                                .next = "join it again with less: rtrain node join HOST:PORT --resources NAME=AMOUNT"});
    head_.revocations.issued(node, session.serial);  // one from before serials were kept
    Inbox& box = inboxes_[node];
    if (said.next_news <= box.received) {  // a new installation: its numbers begin anew
        box.received = box.durable = 0;
        ++box.installation;
        unsaved_.insert(node);
    }
    session.registered = true;
    session.held = said.held;
    NodeSeen& seen = seen_[node];
    seen.connected = true;
    seen.gpu_model = said.gpu_model;
    seen.facts = said.facts;
    Event event = registered(head_.cluster, NodeId{node}, said, session.far_address);
    tell_that_it_moved(node, std::get<NodeRegistered>(event));
    check_address(std::get<NodeRegistered>(event));
    tell_where_peers_are(node, session);
    tell_revoked(node);
    head_.take(std::move(event));
}

// An agent that came back at another address or port: the groups of its attempts must dial it there.
void Agents::tell_that_it_moved(const std::string& node, const NodeRegistered& now) {
    const auto before = head_.cluster.nodes.find(NodeId{node});
    if (before == head_.cluster.nodes.end()) return;
    if (before->second.address == now.address && before->second.port == now.port) return;
    const protocol::PeerMoved news{.node = node, .address = now.address, .port = now.port};
    for (const auto& [other, session] : sessions_)
        if (session.registered && other != node) send(other, news);
}

// Said as an event; /v1/nodes shows it while it is so.
void Agents::check_address(const NodeRegistered& now) {
    if (const auto found = addresses_.known(now.node.value, now.address))
        head_.note(
            {.wall_ms = wall_ms(), .text = found->text, .about_run = std::nullopt, .about_node = NodeId{found->node}});
}

// What it missed while it was away.
void Agents::tell_where_peers_are(const std::string& node, const Session& session) {
    std::set<NodeId> peers;
    for (const protocol::AttemptRef& ref : session.held)
        if (const Attempt* attempt = find_attempt(head_.cluster, ref)) {
            std::set<NodeId> nodes;
            for (const Worker& worker : attempt->workers) nodes.insert(worker.seat.node);
            if (nodes.contains(NodeId{node})) peers.merge(nodes);  // of its own attempts only
        }
    for (const NodeId& peer : peers) {
        const auto known = head_.cluster.nodes.find(peer);
        if (peer.value == node || known == head_.cluster.nodes.end() || known->second.address.empty()) continue;
        send(node,
             protocol::PeerMoved{.node = peer.value, .address = known->second.address, .port = known->second.port});
    }
}

void Agents::take_news(const std::string& node, const protocol::News& news) {
    Inbox& box = inboxes_[node];
    head_.later_acknowledge();
    unacknowledged_.insert(node);
    if (news.seq <= box.received) return;
    box.received = news.seq;
    unsaved_.insert(node);
    if (const auto why_not = objection(head_.cluster, NodeId{node}, news)) {
        if (!of_unknown_attempt(head_.cluster, news)) object(node, *why_not);
        return;
    }
    count_news(head_, news);
    if (const auto* report = std::get_if<protocol::Reported>(&news.what)) {
        for (Event& event : head_.reports.take(head_.cluster, *report)) head_.take(std::move(event));
    } else if (const auto* said = std::get_if<protocol::Notice>(&news.what)) {
        notice(node, *said);
    } else if (auto event = event_of(head_.cluster, NodeId{node}, news)) {
        head_.take(std::move(*event));
    }
}

// Drops a message that the node may not send, and acknowledges it. After a backup was restored an honest agent may
// speak of attempts that the head has given to others since; without the acknowledgement it would repeat that for ever.
void Agents::object(const std::string& node, const std::string& why) {
    NodeSeen& seen = seen_[node];
    ++seen.objections;
    const std::int64_t now = monotonic_ms();
    if (seen.objected_ms != 0 && now - seen.objected_ms < objection_pause_ms) return;
    seen.objected_ms = now;
    const std::string text = "security: node " + node + " spoke of what is not its own, and was not believed: " + why +
                             " (" + std::to_string(seen.objections) + " messages so far)";
    std::fprintf(stderr, "rtrain head: %s\n", text.c_str());
    head_.note({.wall_ms = wall_ms(), .text = text, .about_run = std::nullopt, .about_node = NodeId{node}});
    head_.later_acknowledge();
}

void Agents::notice(const std::string& node, const protocol::Notice& said) {
    std::optional<RunId> run;
    if (head_.cluster.runs.contains(RunId{said.attempt.run})) run = RunId{said.attempt.run};
    head_.note({.wall_ms = wall_ms(), .text = said.text, .about_run = run, .about_node = NodeId{node}});
}

void Agents::take_log(const std::string& node, const protocol::LogChunk& chunk, bool its_own) {
    const Attempt* attempt = find_attempt(head_.cluster, chunk.attempt);
    const auto piece = std::make_shared<LogStore::Piece>(
        LogStore::Piece{.name = {.run = RunId{chunk.attempt.run},
                                 .attempt = attempt ? attempt->id.number : chunk.attempt.number,
                                 .rank = chunk.rank,
                                 .stream = chunk.stream},
                        .offset = chunk.offset,
                        .bytes = chunk.bytes,
                        .last = chunk.last,
                        .wall_ms = line_time(chunk)});
    const LogSource from{.node = node, .attempt = chunk.attempt};
    // A run that was removed: nobody will ask for it, so the agent may let go of it.
    if (!its_own || !head_.cluster.runs.contains(piece->name.run))
        return log_taken(piece->name, from, chunk.offset + chunk.bytes.size());
    const std::size_t bytes = chunk.bytes.size();
    if (log_bytes_ + bytes > log_bytes_max)
        return put_off(piece->name, from,
                       {ErrorCode::full, "the disk of the head's data directory is slower than what comes", ""});
    log_bytes_ += bytes;
    const auto size = std::make_shared<Result<std::uint64_t>>(Error{ErrorCode::internal, "it was not written", ""});
    head_.on_log_thread([&logs = head_.logs, piece, size] { *size = logs.take(*piece); },
                        [this, piece, from, size, bytes] {
                            log_bytes_ -= bytes;
                            log_taken(piece->name, from, *size);
                        });
}

void Agents::log_taken(const LogName& name, const LogSource& from, const Result<std::uint64_t>& size) {
    if (!size) return put_off(name, from, size.error());
    head_.later_sync_logs(name, {.node = from.node, .attempt = from.attempt, .offset = *size});
    head_.feeds.poke();
}

// Not acknowledged: the agent keeps it, and sends it again when it is asked for.
void Agents::put_off(const LogName& name, const LogSource& from, const Error& why) {
    if (why.code == ErrorCode::invalid) {  // it will not be better another time
        std::fprintf(stderr, "rtrain head: log of %s: %s\n", from.node.c_str(), why.message.c_str());
        return;
    }
    if (put_off_.empty()) {
        std::fprintf(stderr, "rtrain head: log of %s: %s\n", from.node.c_str(), why.message.c_str());
        head_.loop.after(put_off_ms, [this] { ask_for_logs(); });
    }
    put_off_[name] = from;
    tell_of_room();
    send(from.node, protocol::LogAck{
                        .attempt = from.attempt, .rank = name.rank, .stream = name.stream, .offset = 0, .later = true});
}

void Agents::ask_for_logs() {
    const auto wait = std::make_shared<bool>(true);
    head_.on_log_thread(
        [&logs = head_.logs, wait] { *wait = logs.waits_for_room(); },
        [this, wait] {
            tell_of_room();
            if (*wait) {
                head_.loop.after(put_off_ms, [this] { ask_for_logs(); });
                return;
            }
            for (const auto& [name, from] : std::exchange(put_off_, {}))
                send(from.node,
                     protocol::LogAck{.attempt = from.attempt, .rank = name.rank, .stream = name.stream, .offset = 0});
        });
}

// Once when there is none, and once when there is again.
void Agents::tell_of_room() {
    const bool wait = head_.logs.waiting();
    if (std::exchange(told_of_no_room_, wait) == wait) return;
    const std::string disk = "the disk of the head's data directory (" + head_.options.data_dir + ")";
    const std::string text = wait ? disk +
                                        " is nearly full: workers' logs stay on their nodes until there is room; "
                                        "make some, for example: rtrain runs rm of old runs"
                                  : disk + " has room again: the logs that waited on their nodes are taken";
    head_.note({.wall_ms = wall_ms(), .text = text, .about_run = std::nullopt, .about_node = std::nullopt});
    head_.later_acknowledge();
}

void Agents::add_numbers(Pending& batch) {
    for (const std::string& node : std::exchange(unsaved_, {})) {
        const Inbox& box = inboxes_.at(node);
        batch.news[node] = {.number = box.received, .installation = box.installation};
        batch.batch.settings[seen_prefix + node] = std::to_string(box.received);
    }
}

void Agents::numbers_saved(const Pending& batch) {
    for (const auto& [node, saved] : batch.news) {
        Inbox& box = inboxes_.at(node);
        if (box.installation == saved.installation) box.durable = saved.number;
    }
}

void Agents::acknowledge() {
    for (const std::string& node : std::exchange(unacknowledged_, {})) {
        const auto session = sessions_.find(node);
        const Inbox& box = inboxes_[node];
        if (box.durable != box.received) unacknowledged_.insert(node);  // what came since, when it is durable
        if (session == sessions_.end() || !session->second.registered || session->second.acknowledged == box.durable)
            continue;
        session->second.acknowledged = box.durable;
        send(node, protocol::NewsAck{box.durable});
    }
}

}  // namespace rtrain::head

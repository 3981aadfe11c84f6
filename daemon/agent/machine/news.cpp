// The exchange with the head: the numbered news with their outbox, registration, heartbeats, orders.
#include "daemon/agent/machine/steps.hpp"

namespace rtrain::agent {

using namespace protocol;

namespace {

constexpr std::int64_t gather_ms = 20;
// Bounds on unacknowledged news and on one message. A single item may be larger.
constexpr std::size_t unacknowledged_bytes_max = std::size_t{16} << 20;
constexpr std::size_t batch_bytes_max = std::size_t{1} << 20;  // the head parses it in some 20 ms

// Returns true for a report after the first of its attempt. The first one makes the run RUNNING. The others are
// metrics, which may be sent a moment later, together.
bool may_wait(const NewsBody& what) {
    const auto* report = std::get_if<Reported>(&what);
    return report != nullptr && report->index > 1;
}

// Returns the bytes of `text` in a message, or somewhat more: it is escaped there.
std::size_t in_message(const std::string& text) {
    std::size_t bytes = text.size() + 16;  // quotes, a name, a number
    for (const char c : text)
        if (static_cast<unsigned char>(c) < 0x20)
            bytes += 5;
        else if (c == '"' || c == '\\')
            ++bytes;
    return bytes;
}

// Returns the bytes of news as a message, or somewhat more.
std::size_t bytes_of(const NewsBody& what) {
    struct Texts {
        std::size_t operator()(const Prepared& news) const {
            return in_message(news.from) + in_message(news.master_address);
        }
        std::size_t operator()(const PrepareFailed& news) const { return in_message(news.why); }
        std::size_t operator()(const Started& news) const { return in_message(news.host); }
        std::size_t operator()(const Exited& news) const { return in_message(news.cause.detail); }
        std::size_t operator()(const Emptied&) const { return 0; }
        std::size_t operator()(const Reported& news) const {
            std::size_t bytes = in_message(news.checkpoint);
            for (const auto& [rank, json] : news.metrics_json) bytes += in_message(json);
            return bytes;
        }
        std::size_t operator()(const Committed& news) const {
            return in_message(news.directory) + in_message(news.metrics_json);
        }
        std::size_t operator()(const Deleted& news) const { return in_message(news.directory); }
        std::size_t operator()(const Notice& news) const { return in_message(news.text) + in_message(news.reason); }
    };
    constexpr std::size_t names_and_numbers = 512;
    return names_and_numbers + std::visit(Texts{}, what);
}

// Returns true if the connection has room. It keeps unsent bytes in memory, so they are bounded.
bool has_room(const AgentState& state, std::size_t more) {
    return state.unacknowledged_bytes == 0 || state.unacknowledged_bytes + more <= unacknowledged_bytes_max;
}

void forget_connection(AgentState& state) {
    state.unsent_from = 0;  // the whole outbox is sent at the next registration
    state.unacknowledged_bytes = 0;
}

}  // namespace

std::optional<Time> news_wake(const AgentState& state) {
    const auto next = state.outbox.lower_bound(state.unsent_from);
    if (state.unsent_from == 0 || next == state.outbox.end() || !has_room(state, next->second.bytes))
        return std::nullopt;
    return state.send_at;
}

void keep_unacknowledged(AgentState& state, News news) {
    const std::uint64_t seq = news.seq;
    const std::size_t bytes = bytes_of(news.what);
    state.outbox.emplace(seq, AgentState::Unacknowledged{std::move(news), bytes});
}

void add_news(Step& step, NewsBody what) {
    AgentState& state = step.state;
    News news{.seq = state.next_news++, .what = std::move(what)};
    const bool waits = may_wait(news.what);
    step.out.push_back(KeepNews{news});
    if (state.registered && state.unsent_from == 0) {
        state.unsent_from = news.seq;
        state.send_at = step.now + Duration{gather_ms};
    }
    keep_unacknowledged(state, std::move(news));
    if (!waits) send_late_news(step);
}

void send_late_news(Step& step) {
    AgentState& state = step.state;
    if (state.unsent_from == 0) return;
    NewsBatch batch;
    std::size_t bytes = 0;
    const auto flush = [&] {
        bytes = 0;
        NewsBatch full = std::exchange(batch, {});
        if (full.items.size() == 1) return step.out.push_back(ToHead{std::move(full.items.front())});
        if (!full.items.empty()) step.out.push_back(ToHead{std::move(full)});
    };
    auto at = state.outbox.lower_bound(state.unsent_from);
    for (; at != state.outbox.end() && has_room(state, at->second.bytes); ++at) {
        const std::size_t more = at->second.bytes;
        state.unacknowledged_bytes += more;
        if (bytes + more > batch_bytes_max) flush();
        bytes += more;
        batch.items.push_back(at->second.news);
    }
    flush();
    state.unsent_from = at == state.outbox.end() ? 0 : at->first;  // the rest follows after acknowledgements
}

void on(Step& step, const HeadConnected&) {
    step.state.connected = true;
    step.state.registered = false;
    forget_connection(step.state);
    step.out.push_back(
        ToHead{Hello{.node = step.state.node, .program_version = RTRAIN_VERSION, .boot_id = step.state.boot_id}});
}

void on(Step& step, const HeadDisconnected&) {
    step.state.connected = false;
    step.state.registered = false;
    if (!step.state.alone_since) step.state.alone_since = step.now;
    forget_connection(step.state);
}

namespace {

// Returns a worker's heartbeat. A worker measures a wait at its end, so the wait in the present report is added here.
protocol::WorkerHeartbeat heartbeat_of(const LocalAttempt& attempt, std::uint32_t rank, LocalWorker& worker, Time now) {
    const bool is_of_group = attempt.local && attempt.local->ranks.contains(rank);
    const auto waiting = is_of_group ? waiting_report(*attempt.local, rank) : std::nullopt;
    const std::int64_t waits_ms = waiting ? std::max<std::int64_t>((now - waiting->since).ms, 1) : 0;
    const bool for_files = waiting && waiting->report.checkpoint;
    if (worker.barrier_wait_ms >= 0)
        worker.barrier_sent_ms = std::max(worker.barrier_sent_ms, worker.barrier_wait_ms + (for_files ? 0 : waits_ms));
    if (worker.checkpoint_wait_ms >= 0)
        worker.checkpoint_sent_ms =
            std::max(worker.checkpoint_sent_ms, worker.checkpoint_wait_ms + (for_files ? waits_ms : 0));
    return {.attempt = reference(attempt),
            .rank = rank,
            .cpu_ms = worker.cpu_ms,
            .silent_ms = worker.silent_ms,
            .heartbeat_age_ms = worker.heartbeat_at ? (now - *worker.heartbeat_at).ms : -1,
            .data_wait_ms = worker.data_wait_ms,
            .barrier_wait_ms = worker.barrier_sent_ms,
            .barrier_waits = worker.barrier_waits,
            .checkpoint_wait_ms = worker.checkpoint_sent_ms,
            .interval_ms = worker.interval_ms,
            .report_wait_ms = is_of_group && worker.joined ? waits_ms : -1};
}

}  // namespace

void beat(Step& step) {
    SendHeartbeat beat;
    for (auto& [key, attempt] : step.state.attempts)
        for (auto& [rank, worker] : attempt.workers)
            if (worker.started && !worker.exited) beat.workers.push_back(heartbeat_of(attempt, rank, worker, step.now));
    step.out.push_back(std::move(beat));
    step.state.heartbeat_at = step.now + Duration{step.state.heartbeat_ms};
}

namespace {

void acknowledged(Step& step, std::uint64_t seq) {
    AgentState& state = step.state;
    auto& outbox = state.outbox;
    if (outbox.empty() || outbox.begin()->first > seq) return;
    for (auto at = outbox.begin(); at != outbox.end() && at->first <= seq; at = outbox.erase(at))
        if (state.registered && (state.unsent_from == 0 || at->first < state.unsent_from))
            state.unacknowledged_bytes -= at->second.bytes;
    step.out.push_back(DropNews{seq});
    if (const auto due = news_wake(state); due && step.now >= *due) send_late_news(step);
}

// Handles the head's welcome. The head has only its durable state: first send the registration, then all news that it
// lacks.
void on_message(Step& step, const Welcome& welcome) {
    AgentState& state = step.state;
    acknowledged(step, welcome.news_seen);
    if (state.next_news <= welcome.news_seen && state.outbox.empty()) state.next_news = welcome.news_seen + 1;
    state.heartbeat_ms = welcome.heartbeat_ms;
    state.registered = true;
    state.registered_at = step.now;
    state.left = false;
    state.alone_since.reset();
    try_uploads_now(step);
    Register registration = state.inventory;
    registration.next_news = state.next_news;
    registration.leaving = leaving(step);
    for (const auto& [key, attempt] : state.attempts) registration.held.push_back(reference(attempt));
    step.out.push_back(ToHead{std::move(registration)});
    state.unacknowledged_bytes = 0;
    state.unsent_from = state.outbox.empty() ? 0 : state.outbox.begin()->first;
    state.send_at = step.now;
    send_late_news(step);
    step.out.push_back(ResendLogs{});
    beat(step);
}

void on_message(Step& step, const Refuse& refuse) {
    step.state.registered = false;
    step.state.left = refuse.left;
    forget_connection(step.state);
    std::vector<AttemptRef> given_up;
    if (refuse.left)
        for (const auto& [key, attempt] : step.state.attempts) given_up.push_back(reference(attempt));
    for (const AttemptRef& attempt : given_up)  // no other process would end their workers
        stop(step, {.attempt = attempt, .grace_ms = step.state.stop_grace_ms, .why = refuse.message});
    step.out.push_back(CloseHead{refuse.message + (refuse.next.empty() ? "" : "; " + refuse.next)});
}

void on_message(Step& step, const NewsAck& ack) { acknowledged(step, ack.seq); }
void on_message(Step& step, const LogAck& ack) { step.out.push_back(LogsAcknowledged{ack}); }
void on_message(Step& step, const Prepare& order) { prepare(step, order); }
void on_message(Step& step, const Launch& order) { launch(step, order); }
void on_message(Step& step, const Stop& order) { stop(step, order); }
void on_message(Step& step, const RequestCheckpoint& order) { request_checkpoint(step, order); }
void on_message(Step& step, const DialPeer& order) { step.out.push_back(DialAgent{order}); }
void on_message(Step& step, const Delete& order) { step.out.push_back(RemoveCheckpoint{order}); }
void on_message(Step& step, const Result_& order) { step.out.push_back(WriteResultFile{order}); }
// Groups connect to the coordinator at its new address.
void on_message(Step& step, const PeerMoved& news) {
    for (auto& [key, attempt] : step.state.attempts) {
        bool moved = false;
        for (PeerNode& peer : attempt.saved.prepare.nodes) {
            if (peer.node != news.node || (peer.address == news.address && peer.port == news.port)) continue;
            peer.address = news.address;
            peer.port = news.port;
            moved = true;
        }
        if (!moved || attempt.phase == Phase::preparing) continue;
        step.out.push_back(KeepAttempt{attempt.saved});
        const bool dials =
            attempt.local && !attempt.coordinates && attempt.saved.prepare.nodes.front().node == news.node;
        if (dials) step.out.push_back(DialCoordinator{key, attempt.saved.prepare.nodes.front()});
    }
}
void on_message(Step& step, const TakeStacks& order) {
    const LocalAttempt* attempt = find(step, key_of(order.attempt));
    if (attempt && attempt->phase == Phase::running)
        step.out.push_back(DumpStacks{key_of(order.attempt), order.ranks, order.why});
}
// The adapter handles these messages, since they concern connections and files.
void on_message(Step&, const Revoked&) {}
void on_message(Step&, const Clear&) {}
void on_message(Step&, const RunEnded&) {}
void on_message(Step& step, const Forget& order) {
    if (!step.state.attempts.contains(key_of(order.attempt))) step.out.push_back(ForgetAttempt{key_of(order.attempt)});
}

}  // namespace

void on(Step& step, const HeadMessage& input) {
    std::visit([&](const auto& message) { on_message(step, message); }, input.message);
}

void on(Step& step, const CheckpointGone& input) {
    if (input.why.empty()) return add_news(step, Deleted{.run = input.run, .directory = input.directory});
    add_news(step, Notice{.attempt = {.run = input.run},
                          .text = "checkpoint " + input.directory + " could not be deleted: " + input.why,
                          .reason = "delete_failed"});
}

}  // namespace rtrain::agent

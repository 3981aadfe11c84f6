// Sessions of agents and orders to them: see agents.hpp. What agents say is in inbox.cpp.
#include "daemon/head/agents.hpp"

#include <algorithm>

#include "daemon/head/counting.hpp"
#include "daemon/head/shell.hpp"
#include "daemon/head/view_json.hpp"
#include "daemon/head/words.hpp"
#include "daemon/security/security.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t lease_check_ms = 500;

std::string without_port(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    std::string host = colon == std::string::npos ? address : address.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    return host;
}

}  // namespace

void Agents::start() {
    const std::int64_t now = monotonic_ms();
    for (const auto& [id, node] : head_.cluster.nodes) {
        seen_[id.value].heard_ms = now;
        addresses_.known(id.value, node.address);  // what there is to say was said when they came
    }
    leases_checked_ms_ = now;
    next_clear_ = std::stoull(security::random_hex(8), nullptr, 16) >> 1;
    head_.loop.after(lease_check_ms, [this] { check_leases(); });
}

void Agents::accept(const net::Request& request, const std::shared_ptr<net::Responder>& responder,
                    const std::string& node) {
    const std::uint64_t id = next_session_++;
    // Messages are decoded by the connection's thread: thousands of agents, and one loop.
    const auto read = [this, node, id](const std::string& text) -> net::Loop::Task {
        const auto message = std::make_shared<Result<protocol::FromAgent>>(protocol::decode_from_agent(text));
        return [this, node, id, message] { heard(node, id, std::move(*message)); };
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

void Agents::closed(const std::string& node, std::uint64_t session) {
    const auto found = sessions_.find(node);
    if (found == sessions_.end() || found->second.id != session) return;  // an old one, replaced since
    sessions_.erase(found);
    seen_[node].connected = false;
}

void Agents::refuse(Session& session, protocol::Refuse refusal) {
    const std::string why = refusal.message;
    session.socket->send(protocol::encode(protocol::FromHead{std::move(refusal)}));
    session.socket->close(why);
}

void Agents::send(const std::string& node, const protocol::FromHead& message) {
    const auto found = sessions_.find(node);
    if (found == sessions_.end() || !found->second.registered) return;
    if (!found->second.socket->send(protocol::encode(message)))
        found->second.socket->close("more waits to be sent than a connection may hold");
}

std::vector<std::function<void()>> Agents::orders(const std::vector<Effect>& effects) {
    std::vector<std::function<void()>> out;
    Launching launching;
    for (const Effect& effect : effects)
        if (auto one = order(effect, launching)) out.push_back(std::move(one));
    return out;
}

// An order for a node that is away is dropped: at its next registration the core says again what still counts.
std::function<void()> Agents::order(const Effect& effect, Launching& launching) {
    const Run* run = nullptr;
    if (const auto found = head_.cluster.runs.find(about(effect)); found != head_.cluster.runs.end())
        run = &found->second;
    if (std::holds_alternative<WriteResult>(effect)) return [this, effect] { write_result(effect); };
    const std::string node = addressee(effect).value;
    if (!sessions_.contains(node)) return {};

    OrderFacts facts;
    const bool launches = std::holds_alternative<LaunchWorkers>(effect);
    if (run && (launches || (on_s3(*run) && has_been_on(*run, addressee(effect))))) {
        if (launching.run != run->id)
            launching = {.run = run->id, .secrets = SubmissionFiles::secrets(head_, *run), .token = {}};
        if (launches && launching.token.empty()) launching.token = head_.tokens.run_token(run->id, run->user);
        facts.secrets = launching.secrets;
        facts.token = launching.token;
    }
    auto message = order_of(head_.cluster, effect, facts);
    if (!message) return {};
    return [this, effect, node, message = std::move(*message), key = run ? run->submit_key : ""] {
        if (!overtaken(head_.cluster, effect)) deliver(node, message, key);
    };
}

// Secrets go to nodes that the scheduler has placed the run on, and to no other that stands in for them.
bool Agents::has_been_on(const Run& run, const NodeId& node) const {
    for (const Attempt* attempt : attempts_of(head_.cluster, run.id))
        for (const Worker& worker : attempt->workers)
            if (worker.seat.node == node) return true;
    return false;
}

// A run that has ended does not change any more: what it leaves is told from its records once they are durable, not
// while others wait for a decision. It may have been removed since.
void Agents::write_result(const Effect& effect) {
    const auto found = head_.cluster.runs.find(about(effect));
    if (found == head_.cluster.runs.end()) return;
    const Run& run = found->second;
    const OrderFacts facts{.code_sha256 = {},
                           .secrets = on_s3(run) && has_been_on(run, addressee(effect))
                                          ? SubmissionFiles::secrets(head_, run)
                                          : OrderFacts().secrets,
                           .token = {},
                           .result_json = result_json(head_, run)};
    const auto uri = storage::parse_uri(run.storage_path);
    if (uri.ok() && uri->scheme == storage::Scheme::cluster)
        return write_own_result(head_, run.name, facts.result_json);
    if (auto message = order_of(head_.cluster, effect, facts))
        deliver(addressee(effect).value, std::move(*message), run.submit_key);
}

// What only the journal or the session knows is filled in now.
void Agents::deliver(const std::string& node, protocol::FromHead message, const std::string& code_key) {
    const auto session = sessions_.find(node);
    if (session == sessions_.end()) return;
    if (auto* prepare = std::get_if<protocol::Prepare>(&message)) {
        prepare->code_sha256 = SubmissionFiles::code(head_, code_key);
        prepare->any_user = prepare->resume && SubmissionFiles::any_user(head_, code_key);
    }
    if (auto* stop = std::get_if<protocol::Stop>(&message); stop && stop->attempt.incarnation == 0)
        for (const protocol::AttemptRef& held : session->second.held)  // no record of it: the agent's own name for it
            if (held.run == stop->attempt.run && held.number == stop->attempt.number) stop->attempt = held;
    send(node, message);
}

void Agents::dismiss(const std::string& node, const std::string& why) {
    if (auto found = sessions_.find(node); found != sessions_.end())
        refuse(found->second,
               {.message = why, .next = "rtrain node join ... with a new token brings it back", .left = true});
    seen_.erase(node);
    addresses_.forget(node);
}

bool Agents::connected(const std::string& node) const {
    const auto found = sessions_.find(node);
    return found != sessions_.end() && found->second.registered;
}

const NodeSeen* Agents::seen(const std::string& node) const {
    const auto found = seen_.find(node);
    return found == seen_.end() ? nullptr : &found->second;
}

void Agents::close_all(const std::string& why) {
    for (auto& [node, session] : sessions_) session.socket->close(why);
    sessions_.clear();
}

void Agents::clear(const std::string& node, protocol::Clear order, std::int64_t patience_ms, Then then) {
    if (!connected(node)) return then({.error = "it is not connected"});
    order.id = next_clear_++;
    clearing_[order.id] = {node, std::move(then)};
    send(node, order);
    head_.loop.after(std::max<std::int64_t>(patience_ms, 0), [this, node, id = order.id] {
        cleared(node, {.id = id, .error = "it has not answered in time"});
    });
}

void Agents::cleared(const std::string& node, const protocol::Cleared& said) {
    const auto found = clearing_.find(said.id);
    if (found == clearing_.end() || found->second.node != node) return;  // too late, or not what this node was asked
    const auto then = std::move(found->second.then);
    clearing_.erase(found);
    then(said);
}

// Sends the revoked serials to an agent. A program that simulates nodes says so in its facts and gets none: it accepts
// no connections.
void Agents::tell_revoked(const std::string& node) {
    if (!seen_[node].facts.contains("simulated")) send(node, protocol::Revoked{revoked_});
}

void Agents::revoke(std::vector<std::string> serials) {
    revoked_ = std::move(serials);
    for (const auto& [node, session] : sessions_)
        if (session.registered) tell_revoked(node);
}

// A cable that is plugged in again brings the old connection back to life, but a lost node comes back by registering.
void Agents::hang_up(const std::string& node, const std::string& why) {
    const auto found = sessions_.find(node);
    if (found == sessions_.end()) return;
    found->second.socket->close("the node was taken for lost: " + why);
    sessions_.erase(found);
    seen_[node].connected = false;
}

// When the head itself was held up (suspended, a slow disk), that time is nobody's silence.
void Agents::check_leases() {
    const std::int64_t now = monotonic_ms();
    const std::int64_t held_up = now - leases_checked_ms_ - lease_check_ms;
    leases_checked_ms_ = now;
    for (auto& [name, seen] : seen_) {
        if (held_up > lease_check_ms) seen.heard_ms += held_up;
        const auto node = head_.cluster.nodes.find(NodeId{name});
        if (node == head_.cluster.nodes.end() || node->second.state == NodeState::lost) continue;
        const std::int64_t silent = now - seen.heard_ms;
        if (silent < head_.options.node_timeout_ms) continue;
        const std::string why =
            "no heartbeat for " + std::to_string(silent / 1'000) + "." + std::to_string(silent % 1'000 / 100) + " s";
        count_silence(head_, NodeId{name}, static_cast<double>(silent) / 1e3);
        head_.take(NodeLost{NodeId{name}, why});
        hang_up(name, why);
    }
    head_.loop.after(lease_check_ms, [this] { check_leases(); });
}

}  // namespace rtrain::head

// Connections of workers. The socket reads and writes the length of a frame; this file handles the bodies.
#include "daemon/agent/worker_link/worker_server.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/agent/disk/short_names.hpp"
#include "daemon/agent/hardware/processes.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t beat_every_ms = 200;
constexpr std::size_t frame_prefix = 4;  // encode() returns whole frames, and the socket adds the length itself

std::string body_of(const worker::FromAgent& message) { return worker::encode(message).substr(frame_prefix); }

// Returns true if a process with the uid may connect. The key alone is not enough, since a process of another user may
// have learned it.
bool may_speak(std::int64_t peer, std::int64_t uid) {
    return peer == 0 || peer == static_cast<std::int64_t>(::geteuid()) || (uid >= 0 && peer == uid);
}

}  // namespace

struct WorkerServer::Session {
    std::shared_ptr<net::Socket> socket;
    std::optional<std::pair<AttemptKey, std::uint32_t>> who;
    ProcessId process;
};

Result<std::string> socket_path(const std::string& data_dir) {
    // Workers of root's agent may be other users. They may pass through the directory, and the key identifies them.
    const auto directory = short_directory(data_dir, for_sockets);
    if (!directory) return directory.error();
    return *directory + "/workers.sock";
}

Result<std::unique_ptr<WorkerServer>> WorkerServer::listen(net::Loop& loop, const std::string& path, Enqueue enqueue,
                                                           net::UnixLimits limits) {
    std::unique_ptr<WorkerServer> server(new WorkerServer(loop, std::move(enqueue)));
    limits.stranger_bytes = worker::hello_bytes_max;
    auto socket = net::listen_unix(
        loop, path,
        [raw = server.get()](std::shared_ptr<net::Socket> connection) { return raw->accept(std::move(connection)); },
        limits);
    if (!socket) return socket.error();
    if (::geteuid() == 0 && ::chmod(path.c_str(), 0666) != 0)
        return Error{ErrorCode::io, "opening " + path + " to workers: " + std::strerror(errno), ""};
    server->server_ = std::move(*socket);
    return server;
}

net::SocketEvents WorkerServer::accept(std::shared_ptr<net::Socket> socket) {
    auto session = std::make_shared<Session>();
    session->socket = std::move(socket);
    return {.on_text = [this, session](std::string text) { on_message(session, text); },
            .on_closed = [this, session](const std::string&) { closed(*session); }};
}

bool WorkerServer::current(const Session& session) const {
    const auto entry = session.who ? sockets_.find(*session.who) : sockets_.end();
    return entry != sockets_.end() && entry->second == session.socket;
}

// Handles the end of a connection. If the rank has a newer connection, that one stays.
void WorkerServer::closed(Session& session) {
    const bool was_current = current(session);
    session.socket.reset();
    if (!was_current) return;
    const auto [attempt, rank] = *session.who;
    sockets_.erase(*session.who);
    shared_.left(attempt, rank);
    enqueue_(WorkerCut{attempt, rank});
}

void WorkerServer::on_message(const std::shared_ptr<Session>& session, const std::string& text) {
    auto message = worker::decode_from_worker(text);
    if (!message) {
        session->socket->send(body_of(worker::Refuse{message.error().message}));
        return session->socket->close("a frame that cannot be read");
    }
    if (const auto* first = std::get_if<worker::Hello>(&*message)) return hello(session, *first);
    if (!session->who) return session->socket->close("no hello");
    if (!current(*session)) return session->socket->close("another connection of its rank came after it");
    if (std::holds_alternative<worker::Release>(*message)) return release(*session);
    const auto [attempt, rank] = *session->who;
    if (std::holds_alternative<worker::ReportMemoryTaken>(*message)) return shared_.taken(attempt, rank);
    enqueue_(WorkerMessage{attempt, rank, std::move(*message)});
}

std::vector<WorkerMessage> WorkerServer::posted() {
    std::vector<WorkerMessage> messages;
    for (auto& [attempt, rank, posted] : shared_.take()) {
        auto message = worker::decode_from_worker(posted.frame);
        const auto* report = message ? std::get_if<worker::Report>(&*message) : nullptr;
        if (report && report->index == posted.index) {
            messages.push_back({attempt, rank, std::move(*message), posted.interval_ms});
        } else if (const auto entry = sockets_.find({attempt, rank}); entry != sockets_.end()) {
            entry->second->close("a frame in shared report memory that is no report");
        }
    }
    return messages;
}

// Returns why this connection is refused; empty if it is accepted.
std::string WorkerServer::why_not(const Session& session, const worker::Hello& hello) const {
    if (session.who) return "a connection is for one rank, and this one has said which";
    const auto entry = admitted_.find(hello.attempt);
    if (entry == admitted_.end()) return "this agent has no attempt " + hello.attempt + " (any more)";
    if (!security::equal_constant_time(entry->second.key, hello.key)) return "wrong key for attempt " + hello.attempt;
    if (const net::UnixPeer peer = net::unix_peer(*session.socket); !may_speak(peer.uid, entry->second.uid))
        return "attempt " + hello.attempt + " runs as user " + std::to_string(entry->second.uid) +
               ", and this process as user " + std::to_string(peer.uid) + "; start it as the run's user";
    if (!entry->second.ranks.contains(hello.rank))
        return "attempt " + hello.attempt + " has no rank " + std::to_string(hello.rank) + " on this node";
    if (hello.min_protocol > worker::protocol_version || hello.protocol < worker::oldest_protocol)
        return "the worker speaks protocol " + std::to_string(hello.min_protocol) + " to " +
               std::to_string(hello.protocol) + ", this agent " + std::to_string(worker::oldest_protocol) + " to " +
               std::to_string(worker::protocol_version);
    return {};
}

// Returns true if the process gets its rank's place. Otherwise sends it the holder, and the data that it may read.
bool WorkerServer::takes_place(const std::shared_ptr<Session>& session, const worker::Hello& hello,
                               const WorkerIdentity& of) {
    std::optional<ProcessId> holder = holders_.holder(of.attempt, hello.rank, still_runs);
    if (hello.place != worker::Place::not_wanted) {
        const ProcessId now = holders_.claim(of.attempt, hello.rank, session->process, still_runs);
        if (now == session->process) {
            if (holder != now && of.holder_file) keep_holder(of.holder_file(hello.rank), now);
            return true;
        }
        holder = now;
    }
    const std::int64_t pid = holder ? holder->pid : -1;
    auto welcome = reading_ ? reading_(of.attempt, hello.rank) : std::nullopt;
    if (hello.place == worker::Place::untold || !welcome) {
        session->socket->send(body_of(worker::Refuse{"rank " + std::to_string(hello.rank) + " belongs to process " +
                                                     std::to_string(pid) + ", which came first"}));
    } else {
        welcome->holder = pid;
        session->socket->send(body_of(*welcome));
    }
    session->socket->close("the rank's place is another process's");
    return false;
}

std::optional<ProcessId> WorkerServer::holder(AttemptKey attempt, std::uint32_t rank) const {
    return holders_.holder(attempt, rank, still_runs);
}

void WorkerServer::hello(const std::shared_ptr<Session>& session, const worker::Hello& hello) {
    if (const std::string why = why_not(*session, hello); !why.empty()) {
        session->socket->send(body_of(worker::Refuse{why}));
        return session->socket->close(why);
    }
    const WorkerIdentity& of = admitted_.at(hello.attempt);
    net::introduced(*session->socket);
    session->process = process_of(net::unix_peer(*session->socket).pid);
    if (!takes_place(session, hello, of)) return;
    session->who = {of.attempt, hello.rank};
    const auto before = std::exchange(sockets_[*session->who], session->socket);
    if (before) before->close("its process has connected again");
    if (hello.report_memory)
        sharing_.insert(*session->who);
    else
        sharing_.erase(*session->who);
    shared_.left(of.attempt, hello.rank);
    enqueue_(WorkerJoined{of.attempt, hello.rank, hello});
}

// Releases the rank's place for the next process that claims it.
void WorkerServer::release(const Session& session) {
    holders_.release(session.who->first, session.who->second, session.process);
    for (const auto& [text, of] : admitted_)
        if (of.attempt == session.who->first && of.holder_file) ::unlink(of.holder_file(session.who->second).c_str());
    session.socket->close("it gave its rank's place up");
}

void WorkerServer::admit(const std::string& attempt_text, WorkerIdentity identity) {
    for (const std::uint32_t rank : identity.ranks)
        if (const auto kept = identity.holder_file ? kept_holder(identity.holder_file(rank)) : std::nullopt)
            holders_.restore(identity.attempt, rank, *kept);
    admitted_.insert_or_assign(attempt_text, std::move(identity));
}

void WorkerServer::dismiss(AttemptKey attempt) {
    std::erase_if(admitted_, [&](const auto& admitted) { return admitted.second.attempt == attempt; });
    holders_.forget(attempt);
    std::erase_if(sharing_, [&](const Who& who) { return who.first == attempt; });
    shared_.wake();
    shared_.close(attempt);
    for (auto at = sockets_.begin(); at != sockets_.end();) {
        if (at->first.first != attempt) {
            ++at;
            continue;
        }
        const auto socket = at->second;
        at = sockets_.erase(at);
        socket->close("the attempt is over");
    }
}

// Updates the beat. Ranks that wait for an agent without beats continue without it.
void WorkerServer::beat() {
    next_beat_ = shared_.beat() ? loop_.after(beat_every_ms, [this] { beat(); }) : 0;
}

WorkerServer::~WorkerServer() { loop_.cancel(next_beat_); }

void WorkerServer::welcome(AttemptKey attempt, std::uint32_t rank, const worker::Welcome& message,
                           const std::set<std::uint32_t>& ranks, worker::ReportMemoryOffer terms) {
    send(attempt, rank, message);
    const auto entry = sockets_.find({attempt, rank});
    if (entry == sockets_.end() || !sharing_.contains({attempt, rank})) return;
    const Rounds rounds = terms.alone && terms.stop.empty() ? Rounds::by_ranks : Rounds::by_agent;
    const auto place = shared_.offer(attempt, rank, ranks, rounds);
    if (!place) return;
    terms.ring = place->ring;
    net::send_with_descriptor(*entry->second, body_of(terms), place->descriptor);
    if (next_beat_ == 0) beat();
}

void WorkerServer::send(AttemptKey attempt, std::uint32_t rank, const worker::FromAgent& message) {
    const auto* answer = std::get_if<worker::Reported>(&message);
    if (answer && !answer->directory && shared_.answer(attempt, rank, answer->index)) return;
    const auto entry = sockets_.find({attempt, rank});
    if (entry == sockets_.end()) return;  // the worker requests it again after it has reconnected
    if (entry->second->send(body_of(message))) return shared_.notice(attempt, rank);
    // The worker does not read, or is closed. After it has reconnected it requests missed messages.
    const auto socket = entry->second;
    socket->close("it does not read what was sent to it");
}

}  // namespace rtrain::agent

// See parts.hpp.
#include "daemon/agent/parts.hpp"

#include <csignal>
#include <filesystem>
#include <utility>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/disk_room.hpp"
#include "storage/uri/objects/store.hpp"

namespace rtrain::agent {
namespace {

// the time that object stores have for requests of an agent that stops
constexpr std::chrono::seconds last_requests(5);
constexpr std::int64_t wait_for_head_ms = 10'000;  // before announce(false)

}  // namespace

Agent::Agent(DirectoryLock lock, ThisNode node, Outbox outbox)
    : lock_(std::move(lock)),
      node_(std::move(node)),
      news_(loop_.net(), std::move(outbox)),
      head_(loop_.net(), loop_, loop_.state(), node_,
            {.on_message = [this](protocol::FromHead message) { on_order(std::move(message)); },
             .on_disconnected = [this] { logs_.disconnected(); },
             .on_unreachable = [this] { node_.take_next_head(); }}),
      heartbeats_(loop_, loop_.state(), loop_.net(), node_, head_),
      cloud_(loop_.net(), loop_, loop_.state()),
      peers_(loop_.net(), loop_, node_, attempts_),
      renewal_(loop_.net(), node_, peers_),
      messages_(loop_.net(), loop_, node_, attempts_),
      scratch_(loop_, loop_.net(), node_, attempts_),
      memory_(loop_, loop_.net(), loop_.state(), node_),
      logs_(
          loop_.net(), node_.files, [this](const protocol::LogChunk& chunk) { return head_.send_log(chunk); },
          [this](std::uint64_t held) {
              const DiskRoom disk = room_at(node_.files.data_dir);
              return logs_of_user(disk, held, reserve_of(disk, node_.options.disk_reserve));
          }),
      workers_({loop_.net(), loop_, loop_.state(), node_, attempts_, messages_, scratch_, memory_, logs_}),
      saved_(node_, attempts_),
      journals_(loop_.net(), node_, attempts_),
      checkpoints_(loop_, loop_.net(), node_, attempts_),
      pending_(loop_.state(), loop_.net(), node_, attempts_, logs_),
      ends_(loop_, loop_.net(), node_, attempts_, journals_, pending_, logs_),
      run_files_(loop_, loop_.state(), loop_.net(), node_, pending_, head_),
      preparations_(loop_, loop_.state(), loop_.net(), node_, attempts_, logs_) {
    connect();
}

void Agent::connect() {
    loop_.connect({.posted = [this] { return messages_.posted(); },
                   .check = [this](WorkerMessage& message) { messages_.check(message); },
                   .perform = [this](Output output) { perform(std::move(output)); },
                   .wake = [this] { messages_.wake(); }});
    logs_.on_complete = [this](AttemptKey key) { pending_.let_go(key); };
}

// Performs the effects of an order that do not go through the machine, then passes the order to the machine.
void Agent::on_order(protocol::FromHead message) {
    if (std::holds_alternative<protocol::Welcome>(message)) announce(true);
    if (std::holds_alternative<protocol::Refuse>(message)) announce(false);
    if (const auto* stop = std::get_if<protocol::Stop>(&message)) preparations_.cancel(key_of(stop->attempt));
    if (const auto* revoked = std::get_if<protocol::Revoked>(&message)) peers_.refuse_revoked(revoked->serials);
    if (const auto* order = std::get_if<protocol::Clear>(&message)) run_files_.clear(*order);
    if (const auto* ended = std::get_if<protocol::RunEnded>(&message)) checkpoints_.drop_kept(ended->run);
    loop_.enqueue(HeadMessage{std::move(message)});
}

Status Agent::open() {
    if (Status listening = messages_.listen(); !listening) return listening;
    if (Status listening = peers_.listen(); !listening) return listening;
    node_.cgroups = Cgroups::open(Cgroups::own_group(), node_.name() + "-" + node_.identity.cluster_id);
    if (Status decided = decide_memory_limits(node_); !decided) return decided;
    peers_.refuse_kept();
    AgentState state = first_state(node_);
    state.inventory.port = peers_.port();
    news_.fill(state);
    loop_.begin(std::move(state));
    adopt_kept_attempts({loop_, node_, attempts_, workers_, checkpoints_, journals_, pending_, logs_});
    log_info("node " + node_.name() + " serves cluster " + node_.identity.cluster_id + ", agents' port " +
             std::to_string(peers_.port()));
    return Done{};
}

// Handles SIGTERM. The workers stay for the next agent, unless the node drains at SIGTERM: then the head moves them
// first. A second SIGTERM ends the drain at once.
void Agent::on_end_signal() {
    const std::int64_t grace_ms = node_.options.drain_on_sigterm_ms;
    if (grace_ms <= 0) return loop_.net().stop();
    if (std::exchange(drains_, true)) return end({.why = "SIGTERM came twice"});
    log_info("node " + node_.name() + " got SIGTERM and drains, for " + std::to_string(grace_ms) + " ms at most");
    loop_.enqueue(ReclaimAsked{.why = "it got SIGTERM", .grace_ms = grace_ms, .ends = true});
}

// Removes the agent's files outside of the data directory. No live worker uses their paths.
void Agent::remove_short_places() {
    const std::filesystem::path socket = node_.socket_path;
    std::error_code gone;
    std::filesystem::remove(socket, gone);
    std::filesystem::remove(socket.parent_path(), gone);  // fails if the directory is not empty
    remove_short_directory(node_.options.data_dir);
}

void Agent::announce(bool registered) {
    if (const auto once = std::exchange(registered_, nullptr)) once(registered);
}

Status Agent::serve(const std::function<Status()>& serves, const std::function<void(bool)>& registered) {
    net::Loop& net = loop_.net();
    end_workers_ = node_.options.end_workers;
    net.on_signal(SIGINT, [&net] { net.stop(); });
    net.on_signal(SIGTERM, [this] { on_end_signal(); });
    net.on_signal(SIGHUP, [] {});
    if (Status announced = serves(); !announced) return announced;
    registered_ = registered;
    net.after(wait_for_head_ms, [this] { announce(false); });
    net.post([this] { head_.connect(); });
    net.post([this] { renewal_.renew(); });
    net.post([this] { cloud_.begin(); });
    net.post([this] { memory_.begin(); });  // for the adopted attempts
    net.post([this] { preparations_.remove_unused(); });
    net.post([this] { preparations_.bound_caches(); });
    net.post([this] { preparations_.bound_setups(); });
    net.run();
    // even if their server does not answer
    storage::end_bucket_requests_at(std::chrono::steady_clock::now() + last_requests);
    const bool has_workers = !end_workers_ && !attempts_.all().empty();
    if (end_workers_) {
        workers_.end_all();
        log_info("node " + node_.name() + " stops, and its workers with it");
    } else {
        log_info("node " + node_.name() + " stops; its workers go on and are adopted by the next agent");
    }
    if (!has_workers) remove_short_places();
    return Done{};
}

}  // namespace rtrain::agent

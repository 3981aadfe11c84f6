// Runs the simulation. One loop; a set of due times wakes the nodes.
#include "daemon/agent/simulated/simulation.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/hardware/inventory.hpp"
#include "daemon/agent/peers/identity.hpp"
#include "daemon/agent/simulated/simulated_node.hpp"
#include "daemon/net/loop/descriptors.hpp"
#include "daemon/security/security.hpp"

namespace rtrain {
namespace agent {
namespace {

constexpr std::uint64_t other_descriptors = 64;
constexpr std::uint32_t joining_threads = 4;
constexpr std::uint32_t dialling_at_most = 32;  // bound on concurrent handshakes, which would slow down the head
constexpr std::int64_t redial_ms = 1'000;
constexpr std::uint16_t peer_port = 7434;  // sent, but not open: simulated workers form no group

// Requests one certificate for each node, over a few persistent connections.
Result<std::vector<Identity>> join_all(const SimulationOptions& options, const std::string& ca_fingerprint) {
    std::vector<Result<Identity>> answers(options.count, Error{ErrorCode::internal, "was not asked for", ""});
    std::atomic<bool> failed = false;
    const auto join_some = [&](std::uint32_t first) {
        JoinWish wish{.node = "",
                      .head_host = options.head_host,
                      .head_port = options.head_port,
                      .token = options.token,
                      .ca_fingerprint = ca_fingerprint};
        net::Client head(joining_endpoint(wish));
        for (std::uint32_t i = first; i < options.count && !failed; i += joining_threads) {
            wish.node = simulated_name(options, i);
            answers[i] = request_to_join(head, wish);
            if (!answers[i]) failed = true;
        }
    };
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < joining_threads; ++i) threads.emplace_back(join_some, i);
    for (std::thread& thread : threads) thread.join();
    std::vector<Identity> identities;
    const Error* first = nullptr;
    for (Result<Identity>& answer : answers) {
        if (answer)
            identities.push_back(std::move(*answer));
        else if (!first || first->code == ErrorCode::internal)
            first = &answer.error();
    }
    if (first) return *first;
    return identities;
}

protocol::Register registration(const SimulationOptions& options, const Inventory& inventory) {
    Labels labels = inventory.labels;
    for (const auto& [name, value] : options.labels) labels[name] = value;
    return {.address = "",
            .port = peer_port,
            .labels = std::move(labels),
            .total = inventory.total,
            .gpus = inventory.gpus,
            .gpu_model = inventory.gpu_model,
            .held = {},
            .next_news = 1,
            .facts = {{"simulated", "one process speaks for this node; its workers are timers"}}};
}

class Simulation {
  public:
    Simulation(const SimulationOptions& options, const Inventory& inventory, std::vector<Identity> identities,
               std::function<void()> ready)
        : ready_(std::move(ready)) {
        const SimulatedWork work{
            .seed = options.seed, .run_ms = options.run_ms, .wall_minus_now_ms = wall_ms() - boot_ms()};
        for (Identity& identity : identities) {
            const std::string name = identity.node;
            members_.push_back({SimulatedNode(name, registration(options, inventory), work), std::move(identity)});
        }
    }
    Result<SimulationEnd> run();

  private:
    struct Member {
        SimulatedNode node;
        Identity identity;
        std::shared_ptr<net::Socket> head{};
        std::uint64_t connection = 0;
        std::optional<std::int64_t> due{};  // as in due_
        bool counted = false;               // counted among the welcomed nodes
    };
    void dial_some();
    void dial(std::size_t index);
    void dialled(std::size_t index, Result<std::shared_ptr<net::Socket>> socket);
    void heard(std::size_t index, const std::string& text);
    void lost(std::size_t index, const std::string& why);
    void act(std::size_t index, const SimulatedDeeds& deeds);
    void arm();
    void wake();
    void fail(Error error);

    std::function<void()> ready_;
    std::vector<Member> members_;
    std::deque<std::size_t> to_dial_;
    std::uint32_t dialling_ = 0;
    std::size_t welcomed_ = 0;
    std::set<std::pair<std::int64_t, std::size_t>> due_;
    net::Loop::TimerId timer_ = 0;
    std::int64_t timer_at_ = 0;
    std::optional<Error> failure_;
    net::Loop loop_;  // last, since it ends the callbacks into the other members
};

Result<SimulationEnd> Simulation::run() {
    for (const int signal : {SIGTERM, SIGINT}) loop_.on_signal(signal, [this] { loop_.stop(); });
    for (std::size_t i = 0; i < members_.size(); ++i) to_dial_.push_back(i);
    loop_.post([this] { dial_some(); });
    loop_.run();
    if (failure_) return *failure_;
    SimulationEnd end;
    for (const Member& member : members_) end.workers_ended += member.node.workers_ended();
    return end;
}

void Simulation::fail(Error error) {
    if (!failure_) failure_ = std::move(error);
    loop_.stop();
}

void Simulation::dial_some() {
    while (dialling_ < dialling_at_most && !to_dial_.empty()) {
        const std::size_t index = to_dial_.front();
        to_dial_.pop_front();
        ++dialling_;
        dial(index);
    }
}

void Simulation::dial(std::size_t index) {
    const std::uint64_t connection = ++members_[index].connection;
    const auto is_current = [this, index, connection] { return members_[index].connection == connection; };
    net::SocketEvents events{.on_text =
                                 [this, index, is_current](const std::string& text) {
                                     if (is_current()) heard(index, text);
                                 },
                             .on_closed =
                                 [this, index, is_current](const std::string& why) {
                                     if (is_current()) lost(index, why);
                                 }};
    net::dial_socket(loop_, head_endpoint(members_[index].identity), "/v1/agents", std::move(events),
                     [this, index](Result<std::shared_ptr<net::Socket>> socket) { dialled(index, std::move(socket)); });
}

void Simulation::dialled(std::size_t index, Result<std::shared_ptr<net::Socket>> socket) {
    --dialling_;
    if (socket) {
        members_[index].head = *socket;
        act(index, members_[index].node.connected(Time{boot_ms()}));
    } else {
        if (socket.error().code == ErrorCode::unauthorised) return fail(socket.error());
        loop_.after(redial_ms, [this, index] {
            to_dial_.push_back(index);
            dial_some();
        });
    }
    dial_some();
}

void Simulation::heard(std::size_t index, const std::string& text) {
    auto message = protocol::decode_from_head(text);
    if (!message) return warn("the head said what no agent can read: " + message.error().message);
    Member& member = members_[index];
    act(index, member.node.on_message(Time{boot_ms()}, std::move(*message)));
    if (member.counted || !member.node.registered()) return;
    member.counted = true;
    if (++welcomed_ == members_.size()) ready_();
}

void Simulation::lost(std::size_t index, const std::string& why) {
    Member& member = members_[index];
    if (!failure_ && member.head) warn("node " + member.node.name() + " lost the head: " + why);
    member.head.reset();
    act(index, member.node.disconnected(Time{boot_ms()}));
    loop_.after(redial_ms, [this, index] {
        to_dial_.push_back(index);
        dial_some();
    });
}

void Simulation::act(std::size_t index, const SimulatedDeeds& deeds) {
    Member& member = members_[index];
    for (const protocol::FromAgent& message : deeds.to_head)
        if (member.head) member.head->send(protocol::encode(message));
    if (!deeds.close.empty())
        return fail({ErrorCode::conflict, "the head refuses node " + member.node.name() + ": " + deeds.close, ""});
    const auto at = member.node.next_wake();
    const std::optional<std::int64_t> due = at ? std::optional(at->ms) : std::nullopt;
    if (due == member.due) return;
    if (member.due) due_.erase({*member.due, index});
    member.due = due;
    if (due) due_.emplace(*due, index);
    arm();
}

void Simulation::arm() {
    if (due_.empty() || (timer_ != 0 && timer_at_ <= due_.begin()->first)) return;
    if (timer_ != 0) loop_.cancel(timer_);
    timer_at_ = due_.begin()->first;
    timer_ = loop_.after(std::max<std::int64_t>(timer_at_ - boot_ms(), 1), [this] { wake(); });
}

void Simulation::wake() {
    timer_ = 0;
    const std::int64_t now = boot_ms();
    while (!due_.empty() && due_.begin()->first <= now) {
        const std::size_t index = due_.begin()->second;
        due_.erase(due_.begin());
        members_[index].due.reset();
        act(index, members_[index].node.wake(Time{now}));
    }
    arm();
}

Status enough_descriptors(std::uint32_t count) {
    const std::uint64_t limit = net::raise_descriptor_limit();
    if (limit >= count + other_descriptors) return Done{};
    return Error{ErrorCode::usage,
                 std::to_string(count) + " nodes need as many connections, but this process may have " +
                     std::to_string(limit) + " files open",
                 "raise the hard limit (ulimit -Hn), or simulate fewer"};
}

}  // namespace
}  // namespace agent

std::string simulated_name(const SimulationOptions& options, std::uint32_t index) {
    char number[16];
    std::snprintf(number, sizeof number, "-%04u", index + 1);
    return options.prefix + number;
}

Result<SimulationEnd> run_simulation(const SimulationOptions& options,
                                     const std::function<void(const SimulationStarted&)>& ready) {
    const auto token = security::parse_token(options.token);
    if (!token) return token.error();
    if (!token->for_node)
        return Error{ErrorCode::unauthorised, "this is a user's token; nodes join with a node token",
                     "rtrain token create --role node --uses " + std::to_string(options.count)};
    if (Status enough = agent::enough_descriptors(options.count); !enough) return enough.error();
    const agent::Hardware hardware{.cpus = units(options.cpus),
                                   .memory_bytes = agent::simulated_memory_bytes,
                                   .allowed_cpus = {},
                                   .gpus = {},
                                   .facts = {}};
    const auto inventory = agent::assemble(hardware, {.resources = options.resources,
                                                      .fake_gpus = options.fake_gpus,
                                                      .accelerator_type = "",
                                                      .visible_devices = {}});
    if (!inventory) return inventory.error();
    const std::int64_t begun_ms = agent::boot_ms();
    auto identities = agent::join_all(options, token->ca_fingerprint);
    if (!identities) return identities.error();
    SimulationStarted started{.join_ms = agent::boot_ms() - begun_ms};
    agent::Simulation simulation(options, *inventory, std::move(*identities), [&] {
        started.register_ms = agent::boot_ms() - begun_ms - started.join_ms;
        ready(started);
    });
    return simulation.run();
}

}  // namespace rtrain

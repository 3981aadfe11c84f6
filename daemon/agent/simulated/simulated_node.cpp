// See simulated_node.hpp.
#include "daemon/agent/simulated/simulated_node.hpp"

#include <algorithm>
#include <utility>

namespace rtrain::agent {
namespace {

constexpr std::int64_t start_ms = 20, end_ms = 5;  // durations of a process's start and end
constexpr std::uint16_t first_port = 20'000, ports = 10'000;

// SplitMix64: maps neighbouring numbers to distant ones.
std::uint64_t mixed(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

}  // namespace

struct SimulatedNode::Carry {
    SimulatedNode& node;
    Time now;
    SimulatedDeeds& deeds;

    void soon(Input what) const { node.now_.push_back(std::move(what)); }

    void operator()(ToHead& out) const { deeds.to_head.push_back(std::move(out.message)); }
    void operator()(SendHeartbeat& out) const {
        deeds.to_head.push_back(protocol::Heartbeat{.memory_used = simulated_memory_bytes / 4,
                                                    .memory_total = simulated_memory_bytes,
                                                    .workers = std::move(out.workers),
                                                    .gpus = {}});
    }
    void operator()(CloseHead& out) const { deeds.close = std::move(out.why); }

    void operator()(const StartPreparation& out) const {
        const protocol::Prepare& order = out.prepare;
        PreparationDone done{
            .attempt = key_of(order.attempt), .number = order.attempt.number, .upload = UploadMode::none};
        if (order.claim) {
            done.master_address = order.nodes.empty() ? "127.0.0.1" : order.nodes.front().address;
            done.master_port = static_cast<std::uint16_t>(first_port + order.attempt.run % ports);
        }
        soon(std::move(done));
    }
    void operator()(const FetchCheckpoint& out) const { soon(CheckpointFetched{.attempt = out.attempt, .why = ""}); }
    void operator()(const StartWorkers& out) const { node.start_workers(now, out.launch); }
    void operator()(const SignalWorker& out) const { node.end_worker(now, out.attempt, out.rank, out.signal); }
    void operator()(const FinishLogs& out) const { soon(LogsDone{out.attempt}); }
    void operator()(const RemoveCheckpoint& out) const {
        soon(CheckpointGone{.run = out.order.run, .directory = out.order.directory, .why = ""});
    }

    // ---- there is no disk, and these workers neither report nor print
    void operator()(const KeepNews&) const {}
    void operator()(const DropNews&) const {}
    void operator()(const KeepAttempt&) const {}
    void operator()(const ResendLogs&) const {}
    void operator()(const LogsAcknowledged&) const {}
    void operator()(const DialAgent&) const {}
    void operator()(const EndAgent&) const {}
    void operator()(const DumpStacks&) const {}
    void operator()(const StartTemplate&) const {}
    void operator()(const EndTemplate&) const {}
    void operator()(const WelcomeWorker&) const {}
    void operator()(const ToWorker&) const {}
    void operator()(const MakeStage&) const {}
    void operator()(const ListStaged&) const {}
    void operator()(const DropStaged&) const {}
    void operator()(const Upload&) const {}
    void operator()(const WriteManifest&) const {}
    void operator()(const KeepCommitted&) const {}
    void operator()(const DropUncommitted&) const {}
    void operator()(const JournalMetrics&) const {}
    void operator()(const DialCoordinator&) const {}
    void operator()(const ToGroup&) const {}
    void operator()(const WriteEnd&) const {}
    void operator()(const CloseAttempt&) const {}
    void operator()(const ForgetAttempt&) const {}
    void operator()(const WriteResultFile&) const {}
};

SimulatedNode::SimulatedNode(std::string name, protocol::Register inventory, SimulatedWork work) : work_(work) {
    state_.node = std::move(name);
    state_.boot_id = "simulated-" + std::to_string(work.seed);
    state_.wall_minus_now_ms = work.wall_minus_now_ms;
    state_.inventory = std::move(inventory);
    state_.inventory.labels[simulated_label] = "true";
}

SimulatedDeeds SimulatedNode::connected(Time now) {
    SimulatedDeeds deeds;
    input(now, HeadConnected{}, deeds);
    return deeds;
}

SimulatedDeeds SimulatedNode::disconnected(Time now) {
    SimulatedDeeds deeds;
    input(now, HeadDisconnected{}, deeds);
    return deeds;
}

SimulatedDeeds SimulatedNode::on_message(Time now, protocol::FromHead message) {
    SimulatedDeeds deeds;
    input(now, HeadMessage{std::move(message)}, deeds);
    return deeds;
}

SimulatedDeeds SimulatedNode::wake(Time now) {
    SimulatedDeeds deeds;
    while (!later_.empty() && later_.begin()->first <= now) {
        Input due = std::move(later_.extract(later_.begin()).mapped());
        input(now, std::move(due), deeds);
    }
    if (const auto at = agent::next_wake(state_); at && *at <= now) input(now, TimerFired{}, deeds);
    return deeds;
}

std::optional<Time> SimulatedNode::next_wake() const {
    auto at = agent::next_wake(state_);
    if (!later_.empty() && (!at || later_.begin()->first < *at)) at = later_.begin()->first;
    return at;
}

void SimulatedNode::input(Time now, Input what, SimulatedDeeds& deeds) {
    if (std::holds_alternative<WorkerEnded>(what)) ++workers_ended_;
    now_.push_back(std::move(what));
    while (!now_.empty()) {
        const Input next = std::move(now_.front());
        now_.pop_front();
        for (Output& output : step(state_, now, next)) std::visit(Carry{*this, now, deeds}, output);
    }
}

// Returns the run time of an attempt. The same seed, run and incarnation give the same time on every node, so that a
// gang ends together.
std::int64_t SimulatedNode::run_ms(AttemptKey attempt) const {
    const std::uint64_t dice = mixed(mixed(work_.seed) ^ mixed(attempt.run * 1'000 + attempt.incarnation));
    return work_.run_ms / 2 + static_cast<std::int64_t>(dice % static_cast<std::uint64_t>(work_.run_ms + 1));
}

void SimulatedNode::start_workers(Time now, const protocol::Launch& launch) {
    const AttemptKey key = key_of(launch.attempt);
    const Time begin = now + Duration{start_ms}, end = begin + Duration{run_ms(key)};
    ExitCause cause;
    cause.exit_code = 0;
    for (const protocol::LaunchWorker& worker : launch.workers) {
        later_.emplace(begin, WorkerStarted_{.attempt = key, .rank = worker.rank, .pid = next_pid_++});
        later_.emplace(end, WorkerEnded{.attempt = key,
                                        .rank = worker.rank,
                                        .cause = cause,
                                        .wall_us = (end.ms + state_.wall_minus_now_ms) * 1'000});
    }
}

// Ends a worker now, and not when it would have ended.
void SimulatedNode::end_worker(Time now, AttemptKey attempt, std::uint32_t rank, std::int32_t signal) {
    const auto its_end = std::find_if(later_.begin(), later_.end(), [&](const auto& later) {
        const auto* ended = std::get_if<WorkerEnded>(&later.second);
        return ended && ended->attempt == attempt && ended->rank == rank;
    });
    if (its_end == later_.end()) return;
    WorkerEnded ended = std::get<WorkerEnded>(its_end->second);
    later_.erase(its_end);
    ended.cause = {};
    ended.cause.signal = signal;
    const Time at = now + Duration{end_ms};
    ended.wall_us = (at.ms + state_.wall_minus_now_ms) * 1'000;
    later_.emplace(at, ended);
}

}  // namespace rtrain::agent

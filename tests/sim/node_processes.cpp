// The worker processes of a simulated node: they report, wait at the barrier, bring checkpoints, and die.
#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "storage/checkpoint/run_directory.hpp"
#include "tests/sim/head.hpp"
#include "tests/sim/node.hpp"
#include "tests/sim/users.hpp"

namespace rtrain::sim {

using agent::AttemptKey;

namespace {

// Returns the step that a checkpoint holds. A restored checkpoint must be there and whole.
std::uint64_t step_of(World& world, const std::string& run, const std::string& from) {
    if (from.empty()) return 0;
    const auto text = world.store.get(run + "/" + from + "/.manifest.json");
    if (!text) throw Violation{run + " starts from " + from + ", which is not committed"};
    const auto manifest = storage::decode_manifest(*text);
    if (!manifest) throw Violation{run + " starts from " + from + ": " + manifest.error().message};
    unsigned long long step = 0;
    std::sscanf(manifest->metrics_json.c_str(), "{\"step\":%llu", &step);
    return step;
}

}  // namespace

void SimNode::spawn(const protocol::Launch& launch, const protocol::LaunchWorker& worker) {
    const ProcessKey key{agent::key_of(launch.attempt), worker.rank};
    if (disk_.started.contains(key)) return;
    const std::string run = disk_.images.at(key.first).prepare.run_name;
    const Script script = script_of(run);
    Process process;
    process.pid = 1'000 + static_cast<std::int64_t>(processes_.size());
    process.run = launch.attempt.run;
    process.world_size = disk_.images.at(key.first).prepare.world_size;
    process.step = step_of(world_, run, launch.from);
    process.steps = script.steps;
    process.checkpoint_every = script.checkpoint_every;
    process.checkpoint_name = script.checkpoint_name;
    process.stubborn = world_.dice.one_in(8);
    // Chosen without the dice: so the seeds that once found something run as before, unless one of their ranks returns
    // early.
    process.returns_early = process.world_size > 1 && (31 * process.run + 17 * key.first.incarnation + 7 * worker.rank +
                                                       13 * process.steps + processes_.size()) %
                                                              53 ==
                                                          0;
    processes_[key] = process;
    disk_.started[key] = process.pid;
    world_.oracle.started(name_, key.first, key.second);
    world_.say(name_,
               "process of run " + std::to_string(process.run) + " rank " + std::to_string(key.second) + " starts");
    world_.after(world_.dice.between(5, 60), [this, key] {
        join(key);
        live(key);
    });
    const std::string environment = "environment " + std::to_string(process.run % 4);
    const auto forked = agent::template_to_fork(state_.templates, environment);
    input(agent::EnvironmentUsed{environment, key.first});
    if (up_ && forked) input(agent::WorkerForked{*forked});
    if (up_) input(agent::WorkerStarted_{.attempt = key.first, .rank = key.second, .pid = process.pid});
}

// Lets the process compute for a while, then report or end.
void SimNode::live(ProcessKey key) {
    Process& process = processes_.at(key);
    if (!process.alive) return;
    if (process.step >= process.steps) return end_well(key);
    if (process.returns_early && process.next_index > 1 && process.kept.empty() && !world_.healed) {
        world_.oracle.returned_early(key.first, key.second, process.next_index - 1);
        return end_well(key);
    }
    world_.after(world_.dice.between(50, 1'500), [this, key] {
        Process& worker = processes_.at(key);
        if (!worker.alive) return;
        if (!world_.healed && world_.dice.one_in(60)) {
            world_.oracle.fault(worker.run);
            ExitCause cause;
            cause.exit_code = 1;
            cause.detail = "an exception";
            return end_process(key, cause);
        }
        worker.waits = true;
        world_.oracle.reported(key.first, key.second, worker.next_index);
        report(key);
    });
}

// Ends the rank once an agent has received all its reports.
void SimNode::end_well(ProcessKey key) {
    if (!processes_.at(key).kept.empty()) return;
    ExitCause done;
    done.exit_code = 0;
    end_process(key, done);
}

void SimNode::join(ProcessKey key) {
    const auto entry = processes_.find(key);
    if (!up_ || entry == processes_.end() || !entry->second.alive) return;
    const Process& process = entry->second;
    worker::Hello hello{.rank = key.second,
                        .pid = process.pid,
                        .next_index = process.kept.empty() ? process.next_index : process.kept.front().index};
    input(agent::WorkerJoined{.attempt = key.first, .rank = key.second, .hello = hello});
    const auto kept = process.kept;
    entry->second.newest_sent = kept.empty() ? process.newest_sent : kept.back().index;
    for (const worker::Report& one : kept)
        if (up_) input(agent::WorkerMessage{.attempt = key.first, .rank = key.second, .message = one});
    if (process.waits) report(key);
}

worker::Report SimNode::report_of(ProcessKey key) const {
    const Process& process = processes_.at(key);
    worker::Report report{.index = process.next_index,
                          .metrics_json = "{\"step\":" + std::to_string(process.step + 1) + "}"};
    if ((process.step + 1) % process.checkpoint_every == 0)
        report.checkpoint = worker::StagedFiles{.path = "stage-" + std::to_string(key.second),
                                                .directory_name = process.checkpoint_name};
    return report;
}

void SimNode::report(ProcessKey key) {
    Process& process = processes_.at(key);
    if (!process.alive) return;
    if (!up_) return pass_without_agent(key.first);
    process.newest_sent = process.next_index;
    input(agent::WorkerMessage{.attempt = key.first, .rank = key.second, .message = report_of(key)});
}

void SimNode::answered(ProcessKey key, std::uint64_t index) {
    const auto entry = processes_.find(key);
    if (entry == processes_.end() || !entry->second.alive) return;
    Process& process = entry->second;
    std::erase_if(process.kept, [&](const worker::Report& one) { return one.index == index; });
    if (process.kept.empty() && process.step >= process.steps) return end_well(key);
    if (!process.waits || process.next_index != index) return;
    passed(key);
}

void SimNode::passed(ProcessKey key) {
    Process& process = processes_.at(key);
    world_.oracle.passed(key.first, process.next_index, process.world_size);
    process.waits = false;
    ++process.next_index;
    ++process.step;
    live(key);
}

// Does what the worker library does without an agent. If all ranks are on this node, they pass a report by themselves
// and keep it for the next agent. They keep only the newest of the checkpoints that wait for that agent.
void SimNode::pass_without_agent(AttemptKey key) {
    constexpr std::size_t kept_most = 40;
    const auto image = disk_.images.find(key);
    std::map<ProcessKey, Process*> ranks;
    for (auto& [rank, process] : processes_)
        if (rank.first == key && process.alive) ranks[rank] = &process;
    std::uint64_t index = 0;
    for (const auto& [rank, process] : ranks)
        if (process->waits && (index == 0 || process->next_index < index)) index = process->next_index;
    const bool here = image != disk_.images.end() && ranks.size() == image->second.prepare.world_size;
    const bool all_come = std::all_of(ranks.begin(), ranks.end(), [&](const auto& one) {
        return one.second->next_index + (one.second->waits ? 1 : 0) > index && one.second->kept.size() < kept_most;
    });
    if (index == 0 || !here || !all_come) return;
    world_.say(name_, "ranks of run " + std::to_string(key.run) + " pass report " + std::to_string(index) +
                          " without an agent");
    for (const auto& [rank, process] : ranks) {
        if (process->next_index != index) continue;
        worker::Report report = report_of(rank);
        for (worker::Report& before : process->kept) {
            if (!report.checkpoint || !before.checkpoint || before.index <= process->newest_sent) continue;
            before.checkpoint.reset();
            before.checkpoint_error = "a newer checkpoint replaced it";
            before.error_reason = worker::replaced_reason;
        }
        process->kept.push_back(std::move(report));
        passed(rank);
    }
}

void SimNode::end_process(ProcessKey key, ExitCause cause) {
    Process& process = processes_.at(key);
    if (!process.alive) return;
    process.alive = false;
    const std::int64_t wall_us = world_.now().ms * 1000 + static_cast<std::int64_t>(key.second);
    disk_.ended[key] = {cause, wall_us};
    world_.oracle.exited(name_, key.first, key.second, cause);
    world_.say(
        name_,
        "process of run " + std::to_string(process.run) + " rank " + std::to_string(key.second) + " ends, " +
            (cause.signal ? "signal " + std::to_string(*cause.signal) : "code " + std::to_string(*cause.exit_code)));
    later(world_.dice.between(0, 3), [this, key, cause, wall_us] {
        input(agent::WorkerEnded{.attempt = key.first, .rank = key.second, .cause = cause, .wall_us = wall_us});
    });
}

bool SimNode::kill_some_process(std::int32_t signal) {
    for (auto& [key, process] : processes_) {
        if (!process.alive) continue;
        world_.oracle.fault(process.run);
        ExitCause cause;
        cause.signal = signal;
        end_process(key, cause);
        return true;
    }
    return false;
}

// ---- uploads that take their time ---------------------------------------------------------------------------------
void SimNode::upload_begins(const agent::Upload& order, std::int64_t ms) {
    uploading_[order.attempt] = {.index = order.index, .moved = world_.now()};
    for (std::int64_t at = world_.dice.between(1'000, 200'000); at < ms; at += world_.dice.between(1'000, 200'000))
        later(at, [this, order, at] {
            const auto entry = uploading_.find(order.attempt);
            if (entry == uploading_.end() || entry->second.index != order.index) return;
            entry->second.moved = world_.now();
            input(agent::UploadMoved{.attempt = order.attempt, .index = order.index, .bytes = at});
        });
}

void SimNode::upload_ends(const agent::Upload& order) {
    const auto entry = uploading_.find(order.attempt);
    if (entry != uploading_.end() && entry->second.index == order.index) uploading_.erase(entry);
}

// Returns true if the node's upload advances and the coordinator has been reachable for long enough to have been told
// of it.
bool SimNode::stores_well(AttemptKey key, const std::string& coordinator) const {
    const auto upload = uploading_.find(key);
    const auto attempt = state_.attempts.find(key);
    if (!up_ || upload == uploading_.end() || attempt == state_.attempts.end()) return false;
    const auto& local = attempt->second.local;
    if (!local || !local->upload || !local->upload->running || local->upload->index != upload->second.index)
        return false;
    const auto since = linked_since_.find({key, coordinator});
    const bool linked = group_links_.contains({key, coordinator}) && since != linked_since_.end() &&
                        world_.now() - since->second > Duration{30'000};
    return linked && waited_for(key);
}

// A node that has left is not waited for.
bool SimNode::waited_for(AttemptKey key) const {
    const auto& attempts = world_.head->disk().attempts;
    return std::any_of(attempts.begin(), attempts.end(), [&](const auto& one) {
        const auto& waiting = one.second.nodes_waiting;
        return one.first.run.value == key.run && one.second.incarnation == key.incarnation &&
               std::find(waiting.begin(), waiting.end(), NodeId{name_}) != waiting.end();
    });
}

// Returns true if the node is empty of the attempt although the coordinator, which is or was just reachable, lacks its
// part.
bool SimNode::leaves_its_part(AttemptKey key) const {
    const auto part = stored_.find(key);
    if (part == stored_.end()) return false;
    const auto& nodes = disk_.images.at(key).prepare.nodes;
    const SimNode& coordinator = *world_.nodes.at(nodes.front().node);
    const auto cut = cut_since_.find(key);
    const bool cut_long = cut != cut_since_.end() && world_.now() - cut->second >= Duration{15'000};
    if (&coordinator == this || cut_long || !coordinator.waited_for(key)) return false;
    const auto saved = coordinator.disk_.images.find(key);
    return saved != coordinator.disk_.images.end() && saved->second.uploading &&
           saved->second.uploading->released.index == part->second;
}

}  // namespace rtrain::sim

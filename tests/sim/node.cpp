// The agent's life on a simulated node: start, death, adoption; its connection to the head; the report group's links.
#include "tests/sim/node.hpp"

#include <signal.h>

namespace rtrain::sim {

using agent::AttemptKey;

SimNode::SimNode(World& world, std::string name) : world_(world), name_(std::move(name)), template_dice_(world.dice) {}

void SimNode::later(std::int64_t ms, std::function<void()> what) {
    world_.after(ms, [this, life = life_, what = std::move(what)] {
        if (up_ && life == life_) what();
    });
}

void SimNode::start_agent() {
    if (up_) return;
    up_ = machine_up_ = true;
    world_.answers_anew(name_);
    world_.say(name_, "agent starts");
    state_ = {};
    state_.node = name_;
    state_.boot_id = std::to_string(boot_);
    state_.inventory.address = "10.0.0." + name_.substr(1);
    state_.inventory.port = 7434;
    state_.inventory.total["CPU"] = units(world_.settings.cpus);
    state_.inventory.gpus = world_.settings.gpus;
    state_.stop_grace_ms = 2'000;
    state_.templates.policy = {.on = template_dice_.one_in(2),
                               .templates_max = 2,
                               .memory_max = 1'000,
                               .delay_ms = 500,
                               .import_ms = 3'000,
                               .idle_ms = 4'000,
                               .unfit_ms = 5'000,
                               .standby_delay_ms = 500,
                               .standby_idle_ms = 2'000,
                               .memory_guess = 400};
    for (const auto& [seq, news] : disk_.outbox) agent::keep_unacknowledged(state_, news);
    state_.next_news = disk_.next_news;
    if (template_dice_.one_in(2))
        input(agent::TemplateWanted{"environment " + std::to_string(template_dice_.between(0, 3))});
    if (!up_) return;
    find_attempts();
    later(world_.dice.between(0, 500), [this] { dial(); });
}

// Finds what the agent before left: attempts on disk, workers that still run, exit files of workers that ended
// meanwhile.
void SimNode::find_attempts() {
    const auto images = disk_.images;
    for (const auto& [key, saved] : images) {
        agent::AttemptFound attempt{.saved = saved, .workers = {}};
        for (const auto& [process, pid] : disk_.started)
            if (process.first == key) attempt.workers[process.second] = pid;
        input(attempt);
        if (!up_ || !saved.launch) continue;
        for (const protocol::LaunchWorker& worker : saved.launch->workers) {
            const ProcessKey process{key, worker.rank};
            const auto ended = disk_.ended.find(process);
            if (!disk_.started.contains(process)) {  // The agent died before the start.
                world_.oracle.fault(key.run);
                ExitCause cause;
                cause.exit_code = 1;
                cause.never_started = true;
                cause.detail = "the agent was restarted before it could start it";
                input(agent::WorkerEnded{
                    .attempt = key, .rank = worker.rank, .cause = cause, .wall_us = world_.now().ms * 1000});
            } else {
                input(agent::WorkerStarted_{.attempt = key, .rank = worker.rank, .pid = disk_.started.at(process)});
                if (ended != disk_.ended.end())
                    input(agent::WorkerEnded{key, worker.rank, ended->second.cause, ended->second.wall_us});
                else
                    later(world_.dice.between(5, 200), [this, process] { join(process); });
            }
            if (!up_) return;
        }
    }
}

void SimNode::crash_agent(const std::string& why) {
    world_.say(name_, "agent dies " + why);
    up_ = false;
    ++life_;
    connection_ = 0;
    uploading_.clear();
    templates_.clear();
    cut_since_.clear();
    world_.cut(name_);
    drop_groups();
    world_.after(100, [this] {
        std::set<AttemptKey> waiting;
        for (const auto& [key, process] : processes_)
            if (process.alive && process.waits) waiting.insert(key.first);
        for (const AttemptKey& key : waiting)
            if (!up_) pass_without_agent(key);
    });
    world_.after(world_.dice.between(200, 5'000), [this] { start_agent(); });
}

// Ends every process without an exit file. After the boot the agent finds that its workers are gone.
void SimNode::reboot() {
    world_.say(name_, "reboots");
    ++boot_;
    for (auto& [key, process] : processes_) {
        if (!process.alive) continue;
        process.alive = false;
        world_.oracle.fault(key.first.run);
        ExitCause cause;
        cause.signal = SIGKILL;
        cause.detail = "the node was restarted";
        world_.oracle.exited(name_, key.first, key.second, cause);
        disk_.ended[key] = {cause, world_.now().ms * 1000};
    }
    machine_up_ = false;
    if (up_) return crash_agent("with its node");
}

void SimNode::reclaim(std::int64_t grace_ms) {
    if (!up_) return;
    world_.say(name_, "is to end within " + std::to_string(grace_ms) + " ms");
    input(agent::ReclaimAsked{.why = "SIGTERM", .grace_ms = grace_ms, .ends = true});
}

void SimNode::end_agent(const std::string& why) {
    for (const auto& [key, process] : processes_)
        if (process.alive)
            throw Violation{name_ + " ends, and a worker of run " + std::to_string(process.run) + " lives on"};
    crash_agent("drained: " + why);
}

bool SimNode::quiet() const {
    if (!up_ || !state_.registered || !state_.attempts.empty() || !state_.outbox.empty()) return false;
    for (const auto& [key, process] : processes_)
        if (process.alive) return false;
    return true;
}

std::string SimNode::describe() const {
    std::string text = std::string(up_ ? "up" : "down") + ", news " + std::to_string(state_.outbox.size());
    for (const auto& [key, attempt] : state_.attempts) {
        text += "; run " + std::to_string(key.run) + " phase " + std::to_string(static_cast<int>(attempt.phase));
        if (attempt.local)
            text += " passed " + std::to_string(attempt.local->passed) + " come " +
                    std::to_string(attempt.local->come.size()) + (attempt.local->complete ? " complete" : "") +
                    (attempt.local->upload ? " uploading" : "");
        if (attempt.coordinator) {
            text += ", coordinator passed " + std::to_string(attempt.coordinator->passed);
            for (const auto& [index, one] : attempt.coordinator->gathering)
                text += " gathering " + std::to_string(index) + " from " + std::to_string(one.nodes.size());
            if (attempt.coordinator->commit)
                text += " commits " + attempt.coordinator->commit->directory + ", waits for " +
                        std::to_string(attempt.coordinator->commit->nodes_waiting.size());
        }
    }
    for (const auto& [key, process] : processes_)
        if (process.alive)
            text += "; process of run " + std::to_string(process.run) + " rank " + std::to_string(key.second) +
                    (process.waits ? " waits for report " : " is before report ") + std::to_string(process.next_index);
    return text;
}

void SimNode::arm_timer() {
    const auto wake = agent::next_wake(state_);
    if (!wake) return;
    later(wake->ms - world_.now().ms, [this, timer = ++timer_] {
        if (timer == timer_) input(agent::TimerFired{});
    });
}

// ---- head ---------------------------------------------------------------------------------------------------------
void SimNode::dial() {
    if (connection_ == 0) world_.dial_head(name_);
    later(world_.dice.between(300, 1'500), [this] { dial(); });
}

void SimNode::opened(std::uint64_t connection) {
    connection_ = connection;
    input(agent::HeadConnected{});
}

void SimNode::closed(std::uint64_t connection) {
    if (!up_ || connection_ != connection) return;
    connection_ = 0;
    input(agent::HeadDisconnected{});
}

void SimNode::heard(std::uint64_t connection, const protocol::FromHead& message) {
    if (up_ && connection_ == connection) input(agent::HeadMessage{message});
}

// ---- report group -------------------------------------------------------------------------------------------------
// True also for attempts that the agent does not have yet or has no longer.
bool SimNode::accepts_group() const { return up_ && !world_.partitioned(name_); }

void SimNode::dial_coordinator(AttemptKey key, const std::string& peer) {
    if (!state_.attempts.contains(key)) return;
    SimNode& other = *world_.nodes.at(peer);
    if (!group_links_.contains({key, peer}) && !world_.partitioned(name_) && other.accepts_group()) {
        group_links_[{key, peer}] = world_.now();
        other.group_links_[{key, name_}] = world_.now();
        linked_since_[{key, peer}] = world_.now();
        cut_since_.erase(key);
        input(agent::GroupConnected{key});
    }
    later(500, [this, key, peer] { dial_coordinator(key, peer); });
}

void SimNode::send_group(AttemptKey key, const std::string& to, const protocol::GroupMessage& message) {
    std::string peer = to;
    for (const auto& [link, last] : group_links_)
        if (to.empty() && link.first == key) peer = link.second;
    const auto link = group_links_.find({key, peer});
    if (link == group_links_.end()) return;
    link->second.ms = std::max(link->second.ms, world_.now().ms + world_.dice.between(0, world_.settings.latency_ms));
    world_.after(link->second.ms - world_.now().ms, [this, key, peer, message] {
        SimNode& other = *world_.nodes.at(peer);
        if (group_links_.contains({key, peer}) && other.group_links_.contains({key, name_}))
            other.from_group(key, name_, message);
    });
}

void SimNode::from_group(AttemptKey key, const std::string& from, const protocol::GroupMessage& message) {
    if (up_) input(agent::PeerMessage{.attempt = key, .node = from, .message = message});
}

void SimNode::group_cut(AttemptKey key, const std::string& from) {
    if (group_links_.erase({key, from}) == 0 || !up_) return;
    cut_since_[key] = world_.now();
    const auto entry = state_.attempts.find(key);
    const bool coordinates = entry != state_.attempts.end() && entry->second.coordinator.has_value();
    input(agent::GroupCut{.attempt = key, .node = coordinates ? from : ""});
}

// Messages that were sent before the close arrive before it.
void SimNode::close_group(AttemptKey key) {
    for (const auto& [link, heard] : group_links_) {
        if (link.first != key) continue;
        const std::int64_t ms = std::max<std::int64_t>(heard.ms - world_.now().ms, 0);
        world_.after(ms + world_.dice.between(1, 150), [this, key, peer = link.second] {
            if (group_links_.erase({key, peer}) > 0) world_.nodes.at(peer)->group_cut(key, name_);
        });
    }
}

void SimNode::drop_groups() {
    const auto links = group_links_;
    for (const auto& [link, last] : links) {
        const auto [key, peer] = link;
        world_.after(world_.dice.between(0, 150), [this, key, peer] {  // Sooner than any new link.
            world_.nodes.at(peer)->group_cut(key, name_);
        });
        if (up_)
            group_cut(key, peer);
        else
            group_links_.erase(link);
    }
}

}  // namespace rtrain::sim

#include "daemon/agent/performers/workers/memory_watch.hpp"

#include <algorithm>

#include "daemon/agent/base/clocks.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t look_every_ms = 250;
// The search for a rank's processes reads a file for each of their threads, so it runs only with every fourth
// measurement.
constexpr int search_every = 4;

bool has_limit(const LocalAttempt& attempt) { return attempt.saved.policy.memory_bytes > 0; }

}  // namespace

Status decide_memory_limits(ThisNode& node) {
    const bool can_limit = node.cgroups && node.cgroups->counts_memory();
    node.memory_limits = node.options.memory_limits;
    if (node.memory_limits == MemoryLimits::automatic)
        node.memory_limits = can_limit ? MemoryLimits::cgroup : MemoryLimits::watch;
    if (node.memory_limits == MemoryLimits::cgroup && !can_limit)
        return Error{ErrorCode::usage,
                     "--memory-limits cgroup: the agent cannot use a memory controller of cgroup v2 on " + node.name(),
                     "let systemd delegate one (`Delegate=yes`), or take --memory-limits auto"};
    const char* names[] = {"auto", "off", "watch", "cgroup"};
    node.inventory.facts["memory_limits"] = names[static_cast<int>(node.memory_limits)];
    return Done{};
}

std::vector<MemoryWatch::Target> MemoryWatch::targets() {
    std::vector<Target> targets;
    const bool search = looks_++ % search_every == 0;
    for (const auto& [key, attempt] : state_.attempts) {
        if (!has_limit(attempt) || attempt.workers.empty()) continue;
        if (node_.memory_limits == MemoryLimits::cgroup && node_.cgroups && node_.cgroups->limits_memory(key)) continue;
        for (const auto& [rank, worker] : attempt.workers) {
            if (!worker.started || worker.exited || worker.pid <= 0) continue;
            Target target{.attempt = key, .rank = rank, .pid = worker.pid, .limit = attempt.saved.policy.memory_bytes};
            if (const auto known = ranks_.find({key, rank}); known != ranks_.end()) target.measured = known->second;
            if (search) target.measured.processes.clear();
            targets.push_back(std::move(target));
        }
    }
    return targets;
}

void MemoryWatch::begin() {
    if (looking_ || node_.memory_limits == MemoryLimits::off) return;
    looking_ = true;
    look();
}

// Reads /proc on the pool, and pauses between two looks.
void MemoryWatch::look() {
    looking_ = std::any_of(state_.attempts.begin(), state_.attempts.end(),
                           [](const auto& attempt) { return has_limit(attempt.second); });
    if (!looking_) return ranks_.clear();
    background_.offload(
        [look = Look{.targets = targets()}]() mutable {
            for (Target& target : look.targets) {
                MeasuredRank& rank = target.measured;
                if (rank.processes.empty()) rank.processes = processes_of_worker(target.pid);
                look.measured.ranks[target.attempt][target.rank] = rank.look(target.limit, boot_ms());
            }
            return std::move(look);
        },
        [](const Error&) { return Look{}; },
        [this](Look look) {
            ranks_.clear();
            for (Target& target : look.targets) ranks_[{target.attempt, target.rank}] = std::move(target.measured);
            if (!look.measured.ranks.empty()) inputs_.enqueue(std::move(look.measured));
            background_.after(look_every_ms, [this] { this->look(); });
        });
}

}  // namespace rtrain::agent

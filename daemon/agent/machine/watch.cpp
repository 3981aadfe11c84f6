// Timeouts of an agent: a worker without activity (failure.hang_timeout), and a lost connection to the head
// (failure.isolation_timeout). Both are off by default.
#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "daemon/agent/machine/steps.hpp"

namespace rtrain::agent {

using namespace protocol;

namespace {

// CPU use, in percent of one processor, below which a program counts as asleep.
constexpr std::int64_t busy_percent = 5;
// CPU use, in percent of one processor, that is more than the writing of stacks.
constexpr std::int64_t works_percent = 50;
constexpr std::int64_t stacks_ms = 1'000;  // time for writing the stacks
// A library without a heartbeat for this time does not show whether its program hangs.
constexpr std::int64_t silence_ms = 5'000;

std::string gibibytes(std::int64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / (1 << 30));
    return text;
}

bool waits_in_report(const LocalAttempt& attempt, std::uint32_t rank) {
    return attempt.local && (attempt.local->come.contains(rank) || attempt.local->complete);
}

// Returns true if this node stores its part of a checkpoint, or if its ranks wait for the commit. A node that has
// stored its part and waits for the manifest trains on, so its ranks have no reason to stand still.
bool stores_checkpoint(const LocalAttempt& attempt) {
    const auto& upload = attempt.local->upload;
    return upload && (!upload->done || upload->sync);
}

// Returns true if failure.hang_timeout applies to the rank now: after its first report, and not while a checkpoint is
// stored.
bool may_hang(const LocalAttempt& attempt, std::uint32_t rank, const LocalWorker& worker) {
    const bool counts = attempt.saved.policy.hang_timeout_ms > 0 && attempt.phase == Phase::running && attempt.local &&
                        attempt.local->passed > 0 && worker.started && !worker.exited;
    return counts && !worker.hung && !worker.signalled && !waits_in_report(attempt, rank) &&
           !stores_checkpoint(attempt);
}

void kill_hung(Step& step, LocalAttempt& attempt, std::uint32_t rank, LocalWorker& worker) {
    worker.hung = true;
    worker.kill_at.reset();
    worker.fail_text = "it hangs: no report for " + seconds((step.now - worker.busy_at).ms) +
                       " s, its processor and its GPUs idle (failure.hang_timeout)";
    add_news(step, Notice{.attempt = reference(attempt),
                          .text = "rank " + std::to_string(rank) + " on " + step.state.node + ": " + worker.fail_text,
                          .reason = "hang"});
    step.out.push_back(SignalWorker{key_of(attempt.saved.prepare.attempt), rank, SIGKILL});
}

void look_for_hang(Step& step, LocalAttempt& attempt, std::uint32_t rank, LocalWorker& worker) {
    const Duration idle = step.now - worker.busy_at;
    if (idle < Duration{attempt.saved.policy.hang_timeout_ms}) return worker.kill_at.reset();
    if (worker.kill_at && step.now >= *worker.kill_at) return kill_hung(step, attempt, rank, worker);
    if (worker.kill_at) return;
    worker.kill_at = step.now + Duration{stacks_ms};
    step.out.push_back(DumpStacks{key_of(attempt.saved.prepare.attempt),
                                  {rank},
                                  "it has done nothing for " + seconds(idle.ms) + " s (failure.hang_timeout)"});
}

// Ends a rank that waits in a report or a broadcast of which the coordinator has sent that it can never pass. The
// attempt ends with the rank.
void end_uneven(Step& step, LocalAttempt& attempt) {
    if (attempt.phase != Phase::running || !attempt.local || attempt.local->hopeless.empty()) return;
    const LocalRanks& local = *attempt.local;
    if (local.come.empty() && local.broadcast_come.empty()) return;
    const std::uint32_t waits = local.come.empty() ? local.broadcast_come.begin()->first : local.come.begin()->first;
    LocalWorker& waiting = attempt.workers[waits];
    if (waiting.exited || waiting.signalled || waiting.hung) return;
    waiting.hung = true;
    waiting.fail_text = attempt.local->hopeless;
    step.out.push_back(SignalWorker{key_of(attempt.saved.prepare.attempt), waits, SIGKILL});
}

std::optional<Time> isolation_at(const AgentState& state, const LocalAttempt& attempt) {
    const bool applies = attempt.saved.policy.isolation_timeout_ms > 0 && attempt.phase == Phase::running;
    if (!applies || attempt.isolated || !state.alone_since) return std::nullopt;
    return *state.alone_since + Duration{attempt.saved.policy.isolation_timeout_ms};
}

}  // namespace

void worker_was_busy(Step& step, LocalWorker& worker) {
    worker.busy_at = step.now;
    worker.kill_at.reset();
}

void on_heartbeat(Step& step, LocalAttempt& attempt, std::uint32_t rank, const worker::Heartbeat& heartbeat) {
    LocalWorker& worker = attempt.workers[rank];
    const std::int64_t between = worker.heartbeat_at ? (step.now - *worker.heartbeat_at).ms : 0;
    // Writing the stacks takes little work, and does not count as activity.
    const std::int64_t percent = worker.kill_at ? works_percent : busy_percent;
    const bool busy = (heartbeat.cpu_ms - worker.cpu_ms) * 100 > between * percent;
    if (busy || !worker.heartbeat_at || !may_hang(attempt, rank, worker)) worker_was_busy(step, worker);
    worker.heartbeat_at = step.now;
    worker.silent_ms = heartbeat.silent_ms;
    worker.cpu_ms = heartbeat.cpu_ms;
    worker.data_wait_ms = heartbeat.data_wait_ms;
    worker.barrier_wait_ms = heartbeat.barrier_wait_ms;
    worker.barrier_waits = heartbeat.barrier_waits;
    worker.checkpoint_wait_ms = heartbeat.checkpoint_wait_ms;
}

void on(Step& step, const GpusSampled& input) {
    for (auto& [key, attempt] : step.state.attempts) {
        if (!attempt.saved.launch) continue;
        for (const LaunchWorker& worker : attempt.saved.launch->workers)
            if (std::any_of(worker.gpus.begin(), worker.gpus.end(),
                            [&](std::uint32_t gpu) { return input.busy.contains(gpu); }))
                worker_was_busy(step, attempt.workers[worker.rank]);
    }
}

// Sends a notice if the scratch directory exceeds its quota. The quota is not enforced, since the writer of the files
// is unknown. The notice is repeated after the size has been below the quota.
void on(Step& step, const ScratchMeasured& input) {
    if (step.state.scratch_quota <= 0) return;
    std::int64_t total = 0;
    for (const auto& [key, bytes] : input.bytes) total += bytes;
    const bool full = total > step.state.scratch_quota;
    for (const auto& [key, bytes] : input.bytes) {
        LocalAttempt* attempt = find(step, key);
        if (!attempt) continue;
        if (full && bytes > 0 && !attempt->scratch_full)
            add_news(step, Notice{.attempt = reference(*attempt),
                                  .text = "the scratch directory of " + step.state.node + " holds " + gibibytes(total) +
                                          " GiB, its quota is " + gibibytes(step.state.scratch_quota) +
                                          " GiB (--scratch-quota); this attempt's part is " + gibibytes(bytes) +
                                          " GiB: remove files below $RTRAIN_SCRATCH_DIR",
                                  .reason = "scratch_full"});
        attempt->scratch_full = full;
    }
}

void watch_time(Step& step, LocalAttempt& attempt) {
    end_uneven(step, attempt);
    for (auto& [rank, worker] : attempt.workers) {
        if (!may_hang(attempt, rank, worker) || !worker.heartbeat_at) continue;
        if (step.now - worker.busy_at >= Duration{attempt.saved.policy.hang_timeout_ms}) worker.looked_at = step.now;
        if (step.now - *worker.heartbeat_at > Duration{silence_ms}) continue;
        look_for_hang(step, attempt, rank, worker);
    }
    if (const auto at = isolation_at(step.state, attempt); at && step.now >= *at) {
        attempt.isolated = true;
        add_news(step, Notice{.attempt = reference(attempt),
                              .text = step.state.node + " had no head for " +
                                      seconds((step.now - *step.state.alone_since).ms) +
                                      " s and ended its workers (failure.isolation_timeout)",
                              .reason = "isolated"});
        end_workers(step, attempt, step.state.stop_grace_ms);
    }
}

std::optional<Time> next_watch(const AgentState& state, const LocalAttempt& attempt) {
    std::optional<Time> at = isolation_at(state, attempt);
    for (const auto& [rank, worker] : attempt.workers) {
        if (!may_hang(attempt, rank, worker) || !worker.heartbeat_at) continue;
        // A library without heartbeats is checked again at its next heartbeat.
        const Time hangs = worker.busy_at + Duration{attempt.saved.policy.hang_timeout_ms};
        const Time due = std::max({worker.kill_at.value_or(hangs), *worker.heartbeat_at + Duration{1'000},
                                   worker.looked_at + Duration{1'000}});
        if (!at || due < *at) at = due;
    }
    return at;
}

}  // namespace rtrain::agent

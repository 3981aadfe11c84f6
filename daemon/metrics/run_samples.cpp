// What the records tell about each run: its state, its attempts, why they failed, how much time went where.
#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "daemon/metrics/families.hpp"

namespace rtrain::metrics {
namespace {

constexpr std::int64_t shown_after_end_ms = 15 * 60'000;
constexpr std::size_t ended_runs_limit = 500, values_limit = 20;
constexpr std::array states = {RunState::queued,     RunState::starting, RunState::running,
                               RunState::recovering, RunState::resizing, RunState::stopping,
                               RunState::succeeded,  RunState::failed,   RunState::stopped};

double seconds(Duration duration) { return static_cast<double>(duration.ms) / 1e3; }

// A closed set: why an attempt ended badly, by the worker that failed first.
std::string reason_of(const Attempt& attempt) {
    if (attempt.state == AttemptState::lost) return "node_lost";
    std::size_t first = attempt.first_failure ? attempt.first_failure->value : attempt.workers.size();
    if (first >= attempt.workers.size() || !attempt.workers[first].exit) return "other";
    const ExitCause& cause = *attempt.workers[first].exit;
    if (cause.never_started) return "never_started";
    if (cause.address_in_use) return "address_in_use";
    if (cause.out_of_memory) return "out_of_memory";
    return cause.signal ? "signal" : "exit";
}

struct Attempts {  // of one run, in order
    std::vector<const Attempt*> all;
    std::map<std::string, int> failures;
    Duration ran, scheduling, starting, replaying;
};

Time end_of(const Attempt& attempt, Time now) { return terminal(attempt.state) ? attempt.ended_at : now; }

// Work of the attempt before that has to be done again: what came after the checkpoint that this one begins from.
Duration replayed(const Cluster& cluster, const Attempt& before, const Attempt& attempt, Time now) {
    Time kept = before.started_at;
    if (!attempt.from.empty()) {
        const auto from = cluster.checkpoints.find({.run = attempt.id.run, .directory = attempt.from});
        if (from == cluster.checkpoints.end()) return {};
        kept = std::max(kept, from->second.committed);
    }
    if (before.started_at.ms == 0) return {};
    return {std::max<std::int64_t>(0, (end_of(before, now) - kept).ms)};
}

void account(const Cluster& cluster, Attempts& attempts, const Attempt& attempt, Time now) {
    if (attempt.state == AttemptState::failed || attempt.state == AttemptState::lost)
        ++attempts.failures[reason_of(attempt)];
    Time end = end_of(attempt, now);
    bool started = attempt.started_at.ms != 0;
    if (started) attempts.ran.ms += std::max<std::int64_t>(0, (end - attempt.started_at).ms);
    if (!attempts.all.empty()) {  // time lost between the one before and this one's start
        Time before = end_of(*attempts.all.back(), now);
        attempts.scheduling.ms += std::max<std::int64_t>(0, (attempt.placed_at - before).ms);
        if (started) attempts.replaying.ms += replayed(cluster, *attempts.all.back(), attempt, now).ms;
        Time ready = started ? attempt.started_at : end;
        attempts.starting.ms += std::max<std::int64_t>(0, (ready - attempt.placed_at).ms);
    }
    attempts.all.push_back(&attempt);
}

void add_times(Families& families, const std::string& id, const Run& run, const Attempts& attempts, Time now) {
    if (attempts.all.size() > 1) {
        families.add("run_lost_seconds_total", {{"run_id", id}, {"phase", "schedule"}}, seconds(attempts.scheduling));
        families.add("run_lost_seconds_total", {{"run_id", id}, {"phase", "start"}}, seconds(attempts.starting));
        families.add("run_lost_seconds_total", {{"run_id", id}, {"phase", "replay"}}, seconds(attempts.replaying));
    }
    Time begin;
    for (const Attempt* attempt : attempts.all)
        if (begin.ms == 0) begin = attempt->started_at;
    double whole = seconds((terminal(run.state) ? run.ended : now) - begin);
    if (begin.ms != 0 && whole > 0)
        families.add("run_goodput_ratio", {{"run_id", id}}, std::clamp(seconds(attempts.ran) / whole, 0.0, 1.0));
}

void add_live(Families& families, const std::string& id, const LiveRun& live) {
    families.add("run_step", {{"run_id", id}}, static_cast<double>(live.step));
    if (live.last_report_wall_ms > 0)
        families.add("run_last_report_timestamp_seconds", {{"run_id", id}},
                     static_cast<double>(live.last_report_wall_ms) / 1e3);
    if (live.skew_ratio) families.add("worker_skew_ratio", {{"run_id", id}}, *live.skew_ratio);
    std::size_t shown = 0;
    for (const auto& [key, value] : live.values)
        if (shown++ < values_limit) families.add("run_metric", {{"run_id", id}, {"key", key}}, value);
}

void add_newest_checkpoint(Families& families, const Cluster& cluster, const std::string& id, RunId run) {
    const Checkpoint* newest = nullptr;
    for (auto at = cluster.checkpoints.lower_bound({.run = run, .directory = ""});
         at != cluster.checkpoints.end() && at->first.run == run; ++at)
        if (!newest || at->second.sequence > newest->sequence) newest = &at->second;
    if (!newest) return;
    families.add("checkpoint_bytes", {{"run_id", id}}, static_cast<double>(newest->bytes));
    families.add("checkpoint_last_success_timestamp_seconds", {{"run_id", id}},
                 static_cast<double>(newest->committed_wall_ms) / 1e3);
}

void add_workers(Families& families, const Cluster& cluster, const Live& live) {
    for (const LiveWorker& worker : live.workers) {
        auto attempt = cluster.attempts.find(worker.attempt);
        if (attempt == cluster.attempts.end() || terminal(attempt->second.state)) continue;
        SampleLabels labels = {{"run_id", run_id_text(cluster.meta.cluster_id, worker.attempt.run)},
                               {"rank", std::to_string(worker.rank.value)}};
        if (worker.heartbeat_age_seconds)
            families.add("worker_heartbeat_age_seconds", labels, *worker.heartbeat_age_seconds);
        families.add("worker_resident_memory_bytes", labels, static_cast<double>(worker.resident_bytes));
        families.add("worker_cpu_seconds_total", labels, static_cast<double>(worker.cpu_ms) / 1e3);
        if (worker.data_wait_seconds) families.add("worker_data_wait_seconds_total", labels, *worker.data_wait_seconds);
    }
}

}  // namespace

std::int64_t shown_since(const Cluster& cluster, std::int64_t wall_ms) {
    const std::int64_t since = wall_ms - shown_after_end_ms;
    std::vector<std::int64_t> ends;
    for (const auto& [id, run] : cluster.runs)
        if (terminal(run.state) && run.ended_wall_ms > since) ends.push_back(run.ended_wall_ms);
    if (ends.size() <= ended_runs_limit) return since;
    const auto first_out = ends.begin() + ended_runs_limit;
    std::nth_element(ends.begin(), first_out, ends.end(), std::greater<>());
    return *first_out;
}

bool is_shown(const Run& run, std::int64_t since_wall_ms) {
    return !terminal(run.state) || run.ended_wall_ms > since_wall_ms;
}

void add_run_samples(Families& families, const Cluster& cluster, const Live& live) {
    const std::int64_t since = shown_since(cluster, live.wall_ms);
    for (const auto& [run_id, run] : cluster.runs) {
        if (!is_shown(run, since)) continue;
        std::string id = run_id_text(cluster.meta.cluster_id, run_id);
        families.add("run_info", {{"run_id", id}, {"name", run.name}, {"user", run.user}, {"queue", run.spec.queue}},
                     1);
        for (RunState state : states)
            families.add("run_state", {{"run_id", id}, {"state", to_text(state)}}, run.state == state ? 1 : 0);
        families.add("run_attempts_total", {{"run_id", id}}, run.attempts);
        Attempts attempts;
        for (auto at = cluster.attempts.lower_bound({.run = run_id, .number = 0});
             at != cluster.attempts.end() && at->first.run == run_id; ++at)
            account(cluster, attempts, at->second, live.now);
        for (const auto& [reason, count] : attempts.failures)
            families.add("run_failures_total", {{"run_id", id}, {"reason", reason}}, count);
        const auto restored = live.restore_seconds.find(run_id);
        if (restored != live.restore_seconds.end())
            attempts.starting.ms -= std::min(attempts.starting.ms, static_cast<std::int64_t>(restored->second * 1e3));
        add_times(families, id, run, attempts, live.now);
        if (auto known = live.runs.find(run_id); known != live.runs.end()) add_live(families, id, known->second);
        add_newest_checkpoint(families, cluster, id, run_id);
    }
    add_workers(families, cluster, live);
}

}  // namespace rtrain::metrics

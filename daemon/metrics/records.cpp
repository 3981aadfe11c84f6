// Counts failures of runs by the first failure of each attempt.
#include "daemon/metrics/records.hpp"

#include <algorithm>

#include "scheduler/model/derived.hpp"
#include "scheduler/model/queue_use.hpp"

namespace rtrain::metrics {
namespace {

constexpr std::int64_t shown_after_end_ms = 15 * 60'000;
constexpr std::size_t ended_runs_limit = 500;
constexpr std::size_t budgets_limit = 1'000;

double as_double(Amount amount) { return static_cast<double>(amount.ticks) / Amount::per_unit; }

// Returns why an attempt failed, by the worker that failed first. The reasons are a closed set, since they are values
// of a label.
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

void add_gpus(ShownRun& shown, const Attempt& attempt) {
    for (std::uint32_t rank = 0; rank < attempt.workers.size(); ++rank)
        for (const GpuShare& share : attempt.workers[rank].seat.gpus)
            shown.gpus.push_back({attempt.workers[rank].seat.node, share.device, Rank{rank}});
}

void add_attempts(ShownRun& shown, const Cluster& cluster, const Run& run) {
    for (auto at = cluster.attempts.lower_bound({.run = run.id, .number = 0});
         at != cluster.attempts.end() && at->first.run == run.id; ++at) {
        const Attempt& attempt = at->second;
        if (attempt.state == AttemptState::failed || attempt.state == AttemptState::lost)
            ++shown.failures[reason_of(attempt)];
        if (!terminal(attempt.state)) add_gpus(shown, attempt);
    }
}

std::optional<ShownCheckpoint> newest_checkpoint(const Cluster& cluster, RunId run) {
    const Checkpoint* newest = nullptr;
    for (auto at = cluster.checkpoints.lower_bound({.run = run, .directory = ""});
         at != cluster.checkpoints.end() && at->first.run == run; ++at)
        if (!at->second.earlier && (!newest || at->second.sequence > newest->sequence)) newest = &at->second;
    if (!newest) return std::nullopt;
    return ShownCheckpoint{static_cast<std::int64_t>(newest->bytes), newest->committed_wall_ms};
}

}  // namespace

Sampling::Sampling(const Cluster& cluster, Time now, std::int64_t wall_ms, Taken taken, WaitsOf waits_of)
    : cluster_(cluster), now_(now), wall_ms_(wall_ms), taken_(std::move(taken)), waits_of_(std::move(waits_of)) {
    ClusterIndex scratch;
    const ClusterIndex& index = in_step(cluster, scratch);
    records_.cluster_id = cluster.meta.cluster_id;
    for (const auto& [id, node] : cluster.nodes) records_.nodes[id] = {shown_state(node), node.gpus};
    for (const NodeView& node : index.nodes()) {
        if (node.state == NodeState::lost) continue;
        records_.gpus_total += static_cast<double>(node.gpus_free.size());
        for (const Amount device : node.gpus_free) records_.gpus_free += as_double(device);
    }
    records_.queue_lengths["default"] = 0;
    for (const auto& [line, batches] : index.waiting())
        for (const auto& [shape, batch] : batches) records_.queue_lengths[line.queue] += batch.by_age.size();
    add_budgets();
}

void Sampling::add_budgets() {
    constexpr double ms_of_hour = 3'600'000;
    const auto add_one = [&](const std::string& queue, const std::string& user) {
        if (const auto state = core::budget_of(cluster_, queue, user, now_))
            records_.budgets.push_back({.queue = queue,
                                        .user = user,
                                        .used = static_cast<double>(state->used) / ms_of_hour,
                                        .limit = static_cast<double>(state->limit) / ms_of_hour});
    };
    for (const auto& [queue, rules] : cluster_.queues.rules) add_one(queue, "");
    for (const auto& [who, use] : cluster_.budgets)
        if (records_.budgets.size() < budgets_limit) add_one(who.first, who.second);
}

bool Sampling::step() {
    if (all_seen_) {
        if (ended_.empty()) return false;
        const auto run = cluster_.runs.find(ended_.back().second);
        ended_.pop_back();
        if (run != cluster_.runs.end()) take(run->second);
        return true;
    }
    const auto run = cluster_.runs.upper_bound(records_.last_seen);
    if (run == cluster_.runs.end()) {
        choose_ended();
        all_seen_ = true;
        return !ended_.empty();
    }
    records_.last_seen = run->first;
    if (!terminal(run->second.state))
        may_show(run->second) ? take(run->second) : void(++records_.not_shown[run->second.state]);
    else if (run->second.ended_wall_ms > wall_ms_ - shown_after_end_ms)
        ended_.emplace_back(run->second.ended_wall_ms, run->first);
    if (ended_.size() >= 4 * ended_runs_limit) choose_ended();
    return true;
}

// Returns true if the live run gets samples of its own. The bound per user keeps one user's waiting runs from hiding
// those of others.
bool Sampling::may_show(const Run& live) {
    if (live_shown_ >= runs_shown_most) return false;
    if (live.attempts == 0) {
        std::size_t& of_user = waiting_shown_of_[live.user];
        if (waiting_shown_ >= waiting_shown_most || of_user >= waiting_shown_of_user) return false;
        ++waiting_shown_;
        ++of_user;
    }
    ++live_shown_;
    return true;
}

// Keeps the runs that ended last, up to `ended_runs_limit`.
void Sampling::choose_ended() {
    if (ended_.size() <= ended_runs_limit) return;
    const auto first_out = ended_.begin() + ended_runs_limit;
    std::nth_element(ended_.begin(), first_out, ended_.end(), std::greater<>());
    ended_.erase(first_out, ended_.end());
}

void Sampling::take(const Run& run) {
    ShownRun& shown = records_.runs[run.id];
    shown.name = run.name;
    shown.user = run.user;
    shown.queue = run.spec.queue;
    shown.state = run.state;
    shown.attempts = run.attempts;
    add_attempts(shown, cluster_, run);
    shown.time = time_by_cause(cluster_, run, now_, waits_of_);
    shown.newest = newest_checkpoint(cluster_, run.id);
    if (taken_) taken_(run.id);
}

Records Sampling::finish() { return std::move(records_); }

}  // namespace rtrain::metrics

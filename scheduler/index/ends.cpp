// Estimates when running attempts end.
#include <algorithm>
#include <cmath>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain::core {
namespace {

struct Commits {  // the recorded checkpoints of one attempt
    const Checkpoint* first = nullptr;
    const Checkpoint* latest = nullptr;
};
Commits commits_of(const Cluster& cluster, AttemptId id) {
    Commits commits;
    for (auto at = cluster.checkpoints.lower_bound({.run = id.run, .directory = {}});
         at != cluster.checkpoints.end() && at->first.run == id.run; ++at) {
        const Checkpoint& checkpoint = at->second;
        if (checkpoint.attempt != id.number) continue;
        if (commits.first == nullptr || checkpoint.sequence < commits.first->sequence) commits.first = &checkpoint;
        if (commits.latest == nullptr || checkpoint.sequence > commits.latest->sequence) commits.latest = &checkpoint;
    }
    return commits;
}

// Estimates the end from the progress towards `stop: {epoch: 20}`: the last checkpoint's epoch, and the pace since the
// first checkpoint of the same attempt. With only one checkpoint the pace is that since the attempt's begin, if its
// progress then is known.
std::optional<Time> end_by_progress(const Cluster& cluster, const Attempt& attempt) {
    const RunSpec& spec = cluster.runs.at(attempt.id.run).spec;
    if (spec.stop_at.empty()) return std::nullopt;
    const auto [first, latest] = commits_of(cluster, attempt.id);
    if (latest == nullptr) return std::nullopt;
    const bool several = first != latest;
    const auto from = cluster.checkpoints.find({.run = attempt.id.run, .directory = attempt.from});
    const Checkpoint* before = several ? first : from == cluster.checkpoints.end() ? nullptr : &from->second;
    const Time since = several ? first->committed : attempt.started_at;
    if ((before == nullptr && !attempt.from.empty()) || latest->committed <= since) return std::nullopt;
    std::optional<Time> end;
    for (const auto& [key, target] : spec.stop_at) {
        const auto reached = latest->metrics.find(key);
        if (reached == latest->metrics.end() || (before != nullptr && !before->metrics.contains(key))) continue;
        const double gained = reached->second - (before == nullptr ? 0 : before->metrics.at(key));
        if (gained <= 0 || target <= reached->second) continue;
        const double left = (target - reached->second) / gained * static_cast<double>((latest->committed - since).ms);
        if (!(left < 1e15)) continue;
        const Time at = latest->committed + Duration{static_cast<std::int64_t>(std::llround(left))};
        if (!end || at < *end) end = at;
    }
    return end;
}

// Returns the expected end: by a limit, by the pace of the run's progress, or by a request. `since`: the assumed begin
// of an attempt that has not started.
std::optional<Time> ends_by(const Cluster& cluster, const Attempt& attempt, Time since) {
    const Run& run = cluster.runs.at(attempt.id.run);
    std::optional<Time> end;
    if (run.spec.wall_time_limit) end = wall_time_end(run).value_or(since + *run.spec.wall_time_limit);
    const auto progress = end_by_progress(cluster, attempt);
    if (progress && *progress > since && (!end || *progress < *end)) end = progress;
    const bool goes = attempt.request && attempt.request->deadline && attempt.request->reason >= RequestReason::drain;
    if (goes && (!end || *attempt.request->deadline < *end)) end = attempt.request->deadline;
    return end;
}

// Returns true if all processes have exited, so that only the nodes' reports are missing.
bool all_exited(const Attempt& attempt) {
    return std::all_of(attempt.workers.begin(), attempt.workers.end(),
                       [](const Worker& worker) { return worker.state == WorkerState::exited; });
}

// Returns the time within which the processes of an attempt end once it is stopped.
Duration grace_of(const Cluster& cluster, const Attempt& attempt) {
    return all_exited(attempt) ? Duration{} : cluster.runs.at(attempt.id.run).spec.stop_grace;
}

}  // namespace

std::optional<Time> expected_end(const Cluster& cluster, const Attempt& attempt, Time now) {
    if (attempt.state == AttemptState::stopping || yields(cluster.runs.at(attempt.id.run)))
        return now + grace_of(cluster, attempt);
    const std::optional<Time> end = ends_by(cluster, attempt, now);
    return end ? std::optional(std::max(*end, now)) : std::nullopt;
}

std::optional<Time> known_end(const Cluster& cluster, const Attempt& attempt) {
    if (attempt.state == AttemptState::stopping) return attempt.work_ended + grace_of(cluster, attempt);
    if (yields(cluster.runs.at(attempt.id.run))) return attempt.placed_at;  // counts as free from its begin on
    return ends_by(cluster, attempt, attempt.placed_at);
}

std::set<std::string> programs_awaited(const Cluster& cluster, const Run& waiting) {
    std::set<std::string> programs;
    if (waiting.reserved_from.ms != 0) return programs;
    for (const AttemptId id : waiting.reserved_after)
        if (cluster.index.live_attempts().contains(id) && cluster.index.known_end(id) == unknown_end)
            programs.insert(program_of(cluster.runs.at(id.run)));
    return programs;
}

}  // namespace rtrain::core

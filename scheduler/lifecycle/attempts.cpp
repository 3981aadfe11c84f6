// Steps of an attempt's life, shared by the events: placing, stopping, ending; and what the end means for its run.
//   PLACED ─► STARTING ─► RUNNING ─► STOPPING ─► SUCCEEDED | FAILED | STOPPED | LOST      (any state may go to
//   STOPPING)
// An attempt holds all its bundles until every node has said that it is empty, or is lost.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/causes.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/largest.hpp"

namespace rtrain::core {
namespace {

// Returns true if a checkpoint of the attempt was committed, or if it ran long enough.
bool made_progress(const Attempt& attempt) {
    if (attempt.committed) return true;
    return attempt.started_at.ms != 0 && attempt.work_ended - attempt.started_at >= limits::progress_after;
}

// Returns the number of counted failures in a row of the last attempts that made no progress; 0 if the last one made
// some.
std::uint32_t failures_without_progress(const Cluster& cluster, RunId run) {
    std::uint32_t count = 0;
    auto at = cluster.attempts.upper_bound({.run = run, .number = UINT32_MAX});
    while (at != cluster.attempts.begin() && count < limits::backoffs_doubled) {
        --at;
        if (at->first.run != run || made_progress(at->second)) break;
        count += at->second.counted;
    }
    return count;
}

// A backoff that the job sets always applies. In a record older than `backoff_set` the values show whether the job set
// one.
bool backoff_is_set(const FailurePolicy& policy) {
    const FailurePolicy none;
    return policy.backoff_set || policy.backoff_first != none.backoff_first || policy.backoff_last != none.backoff_last;
}

Duration backoff(const FailurePolicy& policy, std::uint32_t failures) {
    std::int64_t wait = std::max(policy.backoff_first, limits::backoff_least).ms;
    for (std::uint32_t i = 1; i < failures && wait < policy.backoff_last.ms; ++i) wait *= 2;
    return {std::min(wait, std::max({policy.backoff_last, policy.backoff_first, limits::backoff_least}).ms)};
}

// Returns the number of last attempts in a row that ended uncounted before their workers ran or had formed their group.
std::uint32_t beginnings_failed(const Cluster& cluster, RunId run) {
    std::uint32_t count = 0;
    auto at = cluster.attempts.upper_bound({.run = run, .number = UINT32_MAX});
    while (at != cluster.attempts.begin()) {
        --at;
        if (at->first.run != run || at->second.counted) break;
        if (at->second.started_at.ms != 0 && !port_was_taken(at->second)) break;
        // An attempt that was stopped on request does not count. Neither does an attempt whose node had left, or had
        // not registered since the head's start.
        count += at->second.state == AttemptState::failed || at->second.lost_in_start;
    }
    return count;
}

// Returns the number of last attempts that lost a node uncounted, down to one that showed that the run harms no node.
std::uint32_t losses_without_progress(const Cluster& cluster, RunId run) {
    std::uint32_t count = 0;
    auto at = cluster.attempts.upper_bound({.run = run, .number = UINT32_MAX});
    while (at != cluster.attempts.begin() && count < limits::losses_in_a_row) {
        const Attempt& attempt = (--at)->second;
        if (at->first.run != run || attempt.committed) break;
        if (attempt.started_at.ms != 0 && attempt.work_ended - attempt.started_at >= limits::proves_harmless) break;
        count += attempt.lost_uncounted;
    }
    return count;
}

Duration wait_before_next(const Cluster& cluster, const Run& run, const Attempt& ended, std::uint32_t beginnings) {
    const FailurePolicy& policy = run.spec.failure;
    const std::uint32_t failures = ended.counted ? run.failures : beginnings;
    const std::uint32_t in_series = failures_without_progress(cluster, run.id);
    const Duration least = in_series >= limits::failures_of_series ? limits::backoff_least_in_series : Duration{};
    if (backoff_is_set(policy)) return std::max(backoff(policy, failures), least);
    if (made_progress(ended)) return {};
    return std::max(backoff(policy, ended.counted ? in_series : beginnings), least);
}

NodeId result_writer(const Cluster& cluster, const Run& run) {
    const auto last = cluster.attempts.find({.run = run.id, .number = run.attempts});
    const auto alive = [&](const NodeId& id) {
        const auto node = cluster.nodes.find(id);
        return node != cluster.nodes.end() && node->second.state != NodeState::lost;
    };
    if (last != cluster.attempts.end())
        for (const NodeId& id : nodes_of(last->second))
            if (alive(id)) return id;
    for (const auto& [id, node] : cluster.nodes)
        if (alive(id)) return id;
    return {};
}

// The attempt failed or was lost, and the run may continue later on other nodes.
void recover(Change& change, const Attempt& attempt) {
    Run& run = change.edit(attempt.id.run);
    const FailurePolicy& policy = run.spec.failure;
    if (attempt.first_failure && policy.avoid_bad_nodes && attempt.counted)
        avoid(change, run.id, attempt.workers[attempt.first_failure->value].seat.node);
    if (attempt.counted) ++run.failures;
    const auto allowed =
        std::min(policy.max_failures < 0 ? limits::failures_most : static_cast<std::uint32_t>(policy.max_failures),
                 limits::failures_most);
    if (attempt.counted && run.failures > allowed)
        return end_run(
            change, run.id, RunState::failed,
            reasons::FailuresSpent{.failures = run.failures, .max_failures = allowed, .cause = {attempt.cause}});
    if (policy.fail_fast) return end_run(change, run.id, RunState::failed, reasons::FailFast{.cause = {attempt.cause}});
    const std::uint32_t beginnings = beginnings_failed(change.seen(), run.id);
    if (!attempt.counted && beginnings >= limits::failed_starts)
        return end_run(change, run.id, RunState::failed,
                       reasons::StartsFailed{
                           .attempts = beginnings, .prepared = port_was_taken(attempt), .cause = {attempt.cause}});
    const std::uint32_t losses = attempt.lost_uncounted ? losses_without_progress(change.seen(), run.id) : 0;
    if (losses >= limits::losses_in_a_row)
        return end_run(change, run.id, RunState::failed,
                       reasons::NodesLost{.attempts = losses, .cause = {attempt.cause}});
    run.state = RunState::recovering;
    run.reason = attempt.cause;
    const bool shrinks = run.spec.elastic && attempt.end_as == AttemptState::lost && !attempt.counted;
    run.retry_at = change.now();
    if (shrinks) return change.note(notes::shrinks(run));
    run.retry_at = change.now() + wait_before_next(change.seen(), run, attempt, beginnings);
    change.note(notes::backoff(run, run.retry_at - change.now()));
}

// The newest attempt and the first one keep their causes whole.
void cut_older_causes(Change& change, AttemptId newest) {
    const auto& attempts = change.seen().attempts;
    auto at = attempts.find(newest);
    for (std::size_t back = 1; back <= limits::attempts_with_causes; ++back) {
        const bool is_first = at == attempts.begin() || std::prev(at)->first.run != newest.run;
        if (is_first || std::prev(at) == attempts.begin() || std::prev(at, 2)->first.run != newest.run) return;
        --at;
        if (back != 1 && back != limits::attempts_with_causes) continue;
        const std::size_t most = back == 1 ? limits::cause_bytes_of_older : limits::cause_bytes_of_old;
        const std::size_t others = back == 1 ? limits::causes_bytes_of_older : 0;
        Attempt cut = at->second;
        if (cut_causes(cut, most, others)) change.edit(at->first) = std::move(cut);
    }
}

void finish_attempt(Change& change, AttemptId id) {
    Attempt& attempt = change.edit(id);
    attempt.state = attempt.end_as;
    attempt.ended_at = change.now();
    change.look_for_room();
    change.about(id.run);
    judge_nodes(change, attempt);
    cut_older_causes(change, id);
    const Run& run = change.edit(id.run);
    if (attempt.end_as == AttemptState::succeeded) {
        end_run(change, id.run, RunState::succeeded, attempt.cause);
    } else if (run.state == RunState::stopping || !run.stop_by.empty()) {
        const bool asked = !run.stop_by.empty() || ends_for_others(run.reason);
        const bool stopping = run.state == RunState::stopping;
        const Reason reason = stopping ? run.reason : reasons::StoppedBy{.user = run.stop_by, .cause = {attempt.cause}};
        end_run(change, id.run, asked ? RunState::stopped : RunState::failed, reason);
    } else if (attempt.end_as == AttemptState::stopped) {
        place_anew(change, attempt);
    } else {
        recover(change, attempt);
    }
    retain(change, id.run);
}

}  // namespace

void prepare_node(Change& change, const Attempt& attempt, const NodeId& node) {
    change.act(PrepareNode{.attempt = attempt.id,
                           .incarnation = attempt.incarnation,
                           .node = node,
                           .claim = !claimed(attempt) && attempt.workers.front().seat.node == node});
}

void place_attempt(Change& change, RunId id, const Seats& seats) {
    Run& run = change.edit(id);
    if (run.started.ms != 0 && waits_for_others(change.seen(), run)) {
        const Attempt& left = change.seen().attempts.at({.run = id, .number = run.attempts});
        run.without_seats.ms += (change.now() - left.ended_at).ms;
    }
    const auto before = change.seen().attempts.find({.run = id, .number = run.attempts});
    const bool has_grown = before != change.seen().attempts.end() && seats.size() > before->second.workers.size();
    if (has_grown || seats.size() == workers_max(run)) run.resize_within.reset();
    Attempt attempt;
    attempt.id = {.run = id, .number = ++run.attempts};
    run.grow_since.reset();
    attempt.incarnation = static_cast<std::uint32_t>(change.edit_meta().next_incarnation++);
    attempt.placed_at = change.now();
    for (const Seat& seat : seats) {
        Worker worker;
        worker.seat = seat;
        attempt.workers.push_back(std::move(worker));
    }
    attempt.nodes_waiting = nodes_of(attempt);
    std::map<NodeId, std::uint32_t> ranks_on;
    for (Worker& worker : attempt.workers) {
        const auto& nodes = attempt.nodes_waiting;
        worker.local_rank = ranks_on[worker.seat.node]++;
        worker.node_rank =
            static_cast<std::uint32_t>(std::find(nodes.begin(), nodes.end(), worker.seat.node) - nodes.begin());
    }
    run.state = RunState::starting;
    run.reason = {};
    run.retry_at = {};
    drop_reservation(run);
    change.about(id);
    change.note(notes::placed(run.name, attempt));
    for (const NodeId& node : attempt.nodes_waiting) prepare_node(change, attempt, node);
    change.add(std::move(attempt));
}

// Ranks that outlive another rank or node wait in a collective that never ends. No checkpoint contains their present
// state.
bool has_crashed(const Attempt& attempt) {
    return attempt.state == AttemptState::stopping && (attempt.first_failure || attempt.end_as == AttemptState::lost);
}

void stop_on_node(Change& change, const Attempt& attempt, const NodeId& node, const Reason& why) {
    const auto run = change.seen().runs.find(attempt.id.run);
    Duration grace = run == change.seen().runs.end() ? Duration{10'000} : run->second.spec.stop_grace;
    if (has_crashed(attempt)) grace = {0};
    change.act(StopAttempt{
        .attempt = attempt.id, .incarnation = attempt.incarnation, .node = node, .grace = grace, .why = why});
}

// The end cannot be before the placing; it may seem so, because the clocks of nodes may differ.
void work_ended(Change& change, AttemptId id, Duration ago) {
    Attempt& attempt = change.edit(id);
    if (attempt.work_ended.ms != 0) return;
    const Time begun = std::max(attempt.placed_at, attempt.started_at);
    attempt.work_ended = {std::clamp(change.now().ms - ago.ms, begun.ms, std::max(begun.ms, change.now().ms))};
}

void begin_stop(Change& change, AttemptId id, AttemptState end_as, const Reason& cause) {
    work_ended(change, id, {});
    Attempt& attempt = change.edit(id);
    attempt.state = AttemptState::stopping;
    attempt.end_as = end_as;
    attempt.cause = cause;
    attempt.nodes_waiting.clear();
    for (const NodeId& node : nodes_of(attempt)) {
        const auto entry = change.seen().nodes.find(node);
        if (entry == change.seen().nodes.end() || entry->second.state == NodeState::lost) continue;
        attempt.nodes_waiting.push_back(node);
        stop_on_node(change, attempt, node, cause);
    }
    if (attempt.nodes_waiting.empty()) finish_attempt(change, id);
}

void fail_attempt(Change& change, AttemptId id, AttemptState end_as, const Reason& cause, Counts counts) {
    change.edit(id).counted = counts == Counts::yes;
    change.about(id.run);
    const std::string& name = name_of(change.seen(), id.run);
    change.note(id.run, notes::failed(name, id, cause, JobWords::shown),
                notes::failed(name, id, cause, JobWords::hidden));
    begin_stop(change, id, end_as, cause);
}

void node_is_empty(Change& change, AttemptId id, const NodeId& node) {
    const Attempt& seen = change.seen().attempts.at(id);
    if (std::find(seen.nodes_waiting.begin(), seen.nodes_waiting.end(), node) == seen.nodes_waiting.end()) return;
    change.no_longer_waits(id, node);
    if (seen.nodes_waiting.empty()) return finish_attempt(change, id);
    // Rank 0's node may wait for a part of a checkpoint. A repeated order shows it that no further part can arrive.
    const NodeId& coordinates = seen.workers.front().seat.node;
    const bool last = seen.nodes_waiting.size() == 1 && seen.nodes_waiting.front() == coordinates;
    if (last && seen.started_at.ms != 0) stop_on_node(change, seen, coordinates, seen.cause);
}

void end_run(Change& change, RunId id, RunState state, const Reason& reason) {
    Run& run = change.edit(id);
    run.state = state;
    run.reason = reason;
    run.ended = change.now();
    run.ended_wall_ms = run.submitted_wall_ms + (change.now() - run.submitted).ms;
    run.retry_at = {};
    drop_reservation(run);
    change.about(id);
    change.note(run.id, notes::ended(run, JobWords::shown), notes::ended(run, JobWords::hidden));
    change.look_for_room();
    settle_dependents(change, id, state);
    settle_array(change, run);
    end_helpers(change, id);
    if (run.attempts > 0) change.act(WriteResult{.run = id, .node = result_writer(change.seen(), run)});
}

void avoid(Change& change, RunId id, const NodeId& node) {
    Run& run = change.edit(id);
    std::erase(run.nodes_avoided, node);
    run.nodes_avoided.push_back(node);
    if (run.nodes_avoided.size() > limits::avoided_nodes) run.nodes_avoided.erase(run.nodes_avoided.begin());
}

}  // namespace rtrain::core

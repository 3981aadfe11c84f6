// Handles the agents' messages about an attempt: prepared, started, reported, exited, emptied. Messages about an ended
// attempt change nothing.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"

namespace rtrain::core {
namespace {

bool unstarted_on(const Attempt& attempt, const NodeId& node) {
    return std::all_of(attempt.workers.begin(), attempt.workers.end(), [&](const Worker& worker) {
        return worker.seat.node != node || worker.state == WorkerState::placed;
    });
}

const Attempt* preparing(const Change& change, AttemptId asked, std::uint32_t incarnation) {
    const Attempt* attempt = meant_attempt(change.seen(), asked);
    const bool fits = attempt != nullptr && attempt->incarnation == incarnation &&
                      (attempt->state == AttemptState::placed || attempt->state == AttemptState::starting);
    return fits ? attempt : nullptr;
}

// The order to prepare reached the node after the attempt had ended without it (the node had left and registered
// again). Without a stop order the node would hold the preparation for ever.
void give_up_late(Change& change, const NodePrepared& event) {
    const Attempt* attempt = meant_attempt(change.seen(), event.attempt);
    bool over = attempt == nullptr || terminal(attempt->state) || attempt->incarnation != event.incarnation;
    // The node had left and has returned, so the attempt does not wait for it.
    if (!over && attempt->state == AttemptState::stopping) {
        const auto& waiting = attempt->nodes_waiting;
        over = std::find(waiting.begin(), waiting.end(), event.node) == waiting.end();
    }
    if (!over || !change.seen().nodes.contains(event.node)) return;
    Attempt given_up;
    given_up.id = event.attempt;
    given_up.incarnation = event.incarnation;
    stop_on_node(change, given_up, event.node, reasons::GivenUp{});
}

// The claim skipped damaged checkpoints and chose one that was about to be deleted: that deletion is cancelled. An
// earlier run of the name may have decided it.
void keep_wanted(Change& change, const Run& run, const std::string& directory) {
    for (const auto& [id, other] : change.seen().runs) {
        if (other.name != run.name || other.storage_path != run.storage_path) continue;
        const CheckpointKey key{.run = id, .directory = directory};
        const auto entry = change.seen().checkpoints.find(key);
        if (entry != change.seen().checkpoints.end() && entry->second.deleting) change.edit(key).deleting = false;
    }
}

void begin_running(Change& change, AttemptId id) {
    Attempt& attempt = change.edit(id);
    attempt.state = AttemptState::running;
    attempt.started_at = change.now();
    Run& run = change.edit(id.run);
    if (run.started.ms == 0) run.started = change.now();
    run.state = RunState::running;
    change.about(id.run);
    change.note(notes::running(run.name, attempt));
    if (run.spec.elastic) change.look_for_room();  // The run may grow from now on.
    request_if_draining(change, id);
}

// Returns the worker-time of this run's attempts that the checkpoint contains: the work before the attempt, and since
// its begin until the report. Returns zero for a checkpoint that an earlier run has committed.
Duration work_in(const Cluster& cluster, const CheckpointKey& key) {
    const auto checkpoint = cluster.checkpoints.find(key);
    if (checkpoint == cluster.checkpoints.end() || checkpoint->second.earlier) return {};
    const auto of = cluster.attempts.find({.run = key.run, .number = checkpoint->second.attempt});
    if (of == cluster.attempts.end() || of->second.started_at.ms == 0) return {};
    const Attempt& attempt = of->second;
    const std::int64_t trained =
        (checkpoint->second.committed - attempt.started_at).ms - checkpoint->second.uploaded_in.ms;
    return {attempt.work_before.ms +
            std::max<std::int64_t>(0, trained) * static_cast<std::int64_t>(attempt.workers.size())};
}

bool failing(const Worker& worker) { return worker.exit && !worker.exit->success() && !worker.exit->stopped_by_us; }

Reason cause_of(const Attempt& attempt, Rank rank) {
    const Worker& worker = attempt.workers[rank.value];
    return reasons::RankFailed{.rank = rank, .node = worker.seat.node, .exit = *worker.exit};
}

// Finds the first death that was not requested, and the time until any other death. A message about an earlier death
// may arrive late.
void find_first_failure(Attempt& attempt) {
    std::optional<Rank> first;
    for (std::uint32_t i = 0; i < attempt.workers.size(); ++i) {
        const Worker& worker = attempt.workers[i];
        if (failing(worker) && (!first || worker.exit_wall_us < attempt.workers[first->value].exit_wall_us))
            first = Rank{i};
    }
    if (!first) return;
    attempt.first_failure = first;
    attempt.cause = cause_of(attempt, *first);
    attempt.first_failure_lead_us = 0;
    const std::int64_t at = attempt.workers[first->value].exit_wall_us;
    for (std::uint32_t i = 0; i < attempt.workers.size(); ++i) {
        const Worker& worker = attempt.workers[i];
        if (i == first->value || !worker.exit || worker.exit->success() || worker.exit_wall_us < at) continue;
        const std::int64_t lead = worker.exit_wall_us - at;
        if (attempt.first_failure_lead_us == 0 || lead < attempt.first_failure_lead_us)
            attempt.first_failure_lead_us = lead;
    }
}

void failed(Change& change, AttemptId id, Rank rank, Duration ago) {
    work_ended(change, id, ago);
    Attempt& attempt = change.edit(id);
    find_first_failure(attempt);
    const Reason cause = attempt.first_failure ? attempt.cause : cause_of(attempt, rank);
    // If another program took the port between the agent's check and the worker's bind, the failure is not counted.
    fail_attempt(change, id, AttemptState::failed, cause, port_was_taken(attempt) ? Counts::no : Counts::yes);
}

}  // namespace

void on(Change& change, const NodePrepared& event) {
    const Attempt* seen = preparing(change, event.attempt, event.incarnation);
    if (seen == nullptr) return give_up_late(change, event);
    if (!on_node(*seen, event.node)) return;
    AttemptId id = seen->id;
    // the node is prepared again, because its agent had lost the preparation
    if (seen->state == AttemptState::starting) {
        if (unstarted_on(*seen, event.node)) change.act(LaunchWorkers{.attempt = id, .node = event.node});
        return;
    }
    const auto& waiting = seen->nodes_waiting;
    if (std::find(waiting.begin(), waiting.end(), event.node) == waiting.end()) return;
    if (event.claimed_number > id.number) {
        change.renumber(id, event.claimed_number);
        id.number = event.claimed_number;
    }
    if (event.claimed_number > 0) {
        Attempt& claimed = change.edit(id);
        claimed.from = event.from;
        claimed.work_before = work_in(change.seen(), {.run = id.run, .directory = event.from});
        know_earlier(change, id.run, event.earlier);
        keep_wanted(change, change.seen().runs.at(id.run), event.from);
        claimed.master_address = event.master_address;
        claimed.master_port = event.master_port;
    }
    change.no_longer_waits(id, event.node);
    if (!change.seen().attempts.at(id).nodes_waiting.empty()) return;
    Attempt& attempt = change.edit(id);
    attempt.state = AttemptState::starting;
    attempt.prepared_at = change.now();
    change.about(id.run);
    change.note(notes::prepared(name_of(change.seen(), id.run), attempt));
    for (const NodeId& node : nodes_of(attempt)) change.act(LaunchWorkers{.attempt = id, .node = node});
}

void on(Change& change, const NodePrepareFailed& event) {
    const Attempt* attempt = preparing(change, event.attempt, event.incarnation);
    if (attempt == nullptr || !on_node(*attempt, event.node)) return;
    const AttemptId id = attempt->id;
    const reasons::NotPrepared cause{.node = event.node, .why = event.why};
    Run& run = change.edit(id.run);
    if (event.permanent && run.state != RunState::stopping) {
        run.state = RunState::stopping;
        end_helpers(change, run.id);
        run.reason = cause;
    }
    if (!event.permanent && run.spec.failure.avoid_bad_nodes) avoid(change, id.run, event.node);
    fail_attempt(change, id, AttemptState::failed, cause, event.permanent ? Counts::yes : Counts::no);
}

void on(Change& change, const WorkerStarted& event) {
    const Attempt* seen = meant_attempt(change.seen(), event.attempt);
    if (seen == nullptr || terminal(seen->state) || event.rank.value >= seen->workers.size()) return;
    if (seen->workers[event.rank.value].state != WorkerState::placed) return;
    Worker& started = change.edit(seen->id, event.rank);
    started.state = WorkerState::running;
    started.pid = event.pid;
    const bool all = std::all_of(seen->workers.begin(), seen->workers.end(),
                                 [](const Worker& worker) { return worker.state != WorkerState::placed; });
    if (all && seen->state == AttemptState::starting) begin_running(change, seen->id);
}

void on(Change& change, const FirstReport& event) {
    const Attempt* attempt = meant_attempt(change.seen(), event.attempt);
    if (attempt != nullptr && attempt->state == AttemptState::starting) begin_running(change, attempt->id);
}

void on(Change& change, const WorkerExited& event) {
    const Attempt* seen = meant_attempt(change.seen(), event.attempt);
    if (seen == nullptr || terminal(seen->state) || event.rank.value >= seen->workers.size()) return;
    if (seen->workers[event.rank.value].state == WorkerState::exited) return;
    const AttemptId id = seen->id;
    Worker& worker = change.edit(id, event.rank);
    worker.state = WorkerState::exited;
    worker.exit = event.cause;
    worker.exit_wall_us = event.exit_wall_us;
    if (seen->state == AttemptState::stopping) {
        if (seen->end_as != AttemptState::failed || !seen->counted) return;
        Attempt& attempt = change.edit(id);
        find_first_failure(attempt);
        attempt.counted = !port_was_taken(attempt);  // The message about rank 0's end arrived after those of its peers.
        return;
    }
    const NodeId node = worker.seat.node;
    if (ended_by_its_node(change.seen(), node, event.cause)) return end_for_drain(change, id, node);
    if (!event.cause.success()) return failed(change, id, event.rank, event.ago);
    const bool all = std::all_of(seen->workers.begin(), seen->workers.end(),
                                 [](const Worker& w) { return w.exit && w.exit->success(); });
    if (!all) return;  // One rank may end while others still train.
    if (seen->state == AttemptState::starting) begin_running(change, id);
    begin_stop(change, id, AttemptState::succeeded, reasons::RanksSucceeded{});
}

void on(Change& change, const NodeEmptied& event) {
    const Attempt* attempt = meant_attempt(change.seen(), event.attempt);
    if (attempt == nullptr || terminal(attempt->state) || !on_node(*attempt, event.node)) return;
    if (attempt->state == AttemptState::stopping) return node_is_empty(change, attempt->id, event.node);
    if (attempt->state == AttemptState::placed) return;
    reasons::EndUnseen unseen{.node = event.node, .ranks = {}};
    for (std::uint32_t i = 0; i < attempt->workers.size(); ++i) {
        const Worker& worker = attempt->workers[i];
        if (worker.seat.node == event.node && worker.state != WorkerState::exited) unseen.ranks.push_back({i});
    }
    if (unseen.ranks.empty()) return;
    fail_attempt(change, attempt->id, AttemptState::failed, unseen, Counts::yes);
}

}  // namespace rtrain::core

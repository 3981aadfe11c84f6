// Nodes that are taken out of use: drained by people, or quarantined. A draining node gets no new bundle. The runs on
// it get a checkpoint request and move at their commit: with a deadline in any case, without one only if other nodes
// have room (otherwise they stay until they end). At the deadline the remaining runs are stopped and moved. A node
// whose disk is nearly full gets no new bundle either, but its runs stay, since a checkpoint needs space too.
#include <algorithm>
#include <set>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/causes.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/largest.hpp"

namespace rtrain::core {
namespace {

// Returns true if the run fits on other nodes. Runs behind it in the queue do not reduce the room. Runs before it take
// the room first.
bool fits_elsewhere(Change& change, const Attempt& attempt) {
    const Run& run = change.seen().runs.at(attempt.id.run);
    const std::vector<NodeView> nodes = nodes_left_to(change, attempt, run.spec.priority);
    const GangRequest gang = gang_of(run, workers_max(run));
    return place_largest(nodes, gang, workers_min(run)).answer.verdict == Verdict::feasible_now;
}

CheckpointRequest drain_request(const Node& node) {
    return {.reason = RequestReason::drain,
            .why = reasons::NodeDrains{.node = node.id, .cause = {node.state_reason}},
            .deadline = node.drain_deadline};
}

bool drains(const Cluster& cluster, const NodeId& id) {
    const auto node = cluster.nodes.find(id);
    return node != cluster.nodes.end() && node->second.state == NodeState::draining;
}

// Moves an attempt that has not started to train, so that no progress is lost.
void move_unstarted(Change& change, AttemptId id, const Node& node) {
    const Attempt& attempt = change.seen().attempts.at(id);
    if (!node.drain_deadline && !fits_elsewhere(change, attempt)) return;
    change.edit(id).request = drain_request(node);
    end_for_request(change, id);
}

void request_move(Change& change, AttemptId id, const Node& node) {
    const Attempt& attempt = change.seen().attempts.at(id);
    if (const Run& run = change.seen().runs.at(id.run); yields(run) && run.state != RunState::stopping)
        return stop_run(change, id.run, AttemptState::stopped, drain_request(node).why);  // its owner can replace it
    switch (attempt.state) {
        case AttemptState::placed:
        case AttemptState::starting:
            return move_unstarted(change, id, node);
        case AttemptState::running:
            if (change.seen().runs.at(id.run).spec.checkpoint_on_drain && !is_out_of_disk(node))
                request_checkpoint(change, id, drain_request(node));
            return;
        case AttemptState::stopping:
        case AttemptState::succeeded:
        case AttemptState::failed:
        case AttemptState::stopped:
        case AttemptState::lost:
            return;
    }
}

// Withdraws the request to move an attempt if its node is in use again and none of its other nodes drains.
void cancel_move(Change& change, AttemptId id) {
    const Attempt& attempt = change.seen().attempts.at(id);
    if (!request_pending(attempt) || attempt.request->reason != RequestReason::drain) return;
    for (const NodeId& node : nodes_of(attempt))
        if (drains(change.seen(), node)) return;
    change.edit(id).request.reset();
    change.note(notes::not_moved(name_of(change.seen(), id.run)));
}

// Returns true if the program itself is the likely cause of its end: it raised an exception, had a wrong argument, or
// used too much memory. If a program dies of signal n, the shell that started it ends with 128 + n.
bool by_its_own_doing(const Attempt& attempt) {
    const auto& exit = attempt.workers[attempt.first_failure->value].exit;
    if (!exit) return false;
    if (exit->out_of_memory || exit->never_started) return true;
    return exit->exit_code && (*exit->exit_code <= 128 || *exit->exit_code > 128 + 64);
}

// Returns true if the same run continued on other nodes: since the failure it has committed a checkpoint, or succeeded,
// without the node.
bool went_on_elsewhere(const Cluster& cluster, const Attempt& failed, const NodeId& node) {
    const RunId run = failed.id.run;
    const auto first = cluster.checkpoints.lower_bound({.run = run, .directory = {}});
    for (auto at = cluster.attempts.upper_bound(failed.id); at != cluster.attempts.end() && at->first.run == run;
         ++at) {
        if (on_node(at->second, node)) continue;
        if (at->second.state == AttemptState::succeeded) return true;
        for (auto commit = first; commit != cluster.checkpoints.end() && commit->first.run == run; ++commit)
            if (commit->second.attempt == at->first.number) return true;
    }
    return false;
}

// Returns the failures that are evidence against the node: deaths by a signal, and failures that the same code did not
// have on other nodes.
std::vector<NodeFailure> telling_failures(const Cluster& cluster, const Node& node) {
    std::vector<NodeFailure> telling;
    for (const NodeFailure& failure : node.failures) {
        const auto attempt = cluster.attempts.find(failure.attempt);
        if (attempt == cluster.attempts.end() || !attempt->second.first_failure) continue;
        if (!by_its_own_doing(attempt->second) || went_on_elsewhere(cluster, attempt->second, node.id))
            telling.push_back(failure);
    }
    return telling;
}

Reason evidence(const Cluster& cluster, const std::vector<NodeFailure>& failures, std::size_t runs,
                const QuarantinePolicy& policy) {
    reasons::Quarantined reason{.attempts = static_cast<std::uint32_t>(failures.size()),
                                .runs = static_cast<std::uint32_t>(runs),
                                .window = policy.window,
                                .evidence = {}};
    const std::size_t shown = std::min<std::size_t>(failures.size(), 3);
    for (std::size_t i = failures.size() - shown; i < failures.size(); ++i) {
        const AttemptId id = failures[i].attempt;
        const Attempt& attempt = cluster.attempts.at(id);
        reason.evidence.push_back({.run = name_of(cluster, id.run),
                                   .attempt = id.number,
                                   .went_on = by_its_own_doing(attempt),
                                   .cause = {cut_to(in_brief(attempt.cause), limits::note_bytes)}});
    }
    return reason;
}

// Returns true if the run has failed first on several nodes, so that the run is the likely cause.
bool follows_the_run(const Cluster& cluster, const Attempt& attempt, const NodeId& node) {
    for (auto at = cluster.attempts.lower_bound({.run = attempt.id.run, .number = 0});
         at != cluster.attempts.end() && at->first.run == attempt.id.run; ++at) {
        const Attempt& other = at->second;
        if (other.counted && other.first_failure && other.workers[other.first_failure->value].seat.node != node)
            return true;
    }
    return false;
}

std::vector<NodeId> blamed_by(const Cluster& cluster, RunId run) {
    std::vector<NodeId> blamed;
    for (const auto& [id, node] : cluster.nodes)
        if (std::any_of(node.failures.begin(), node.failures.end(),
                        [&](const NodeFailure& failure) { return failure.attempt.run == run; }))
            blamed.push_back(id);
    return blamed;
}

void forget_failures_of(Change& change, RunId run) {
    for (const NodeId& id : blamed_by(change.seen(), run))
        std::erase_if(change.edit(id).failures, [&](const NodeFailure& failure) { return failure.attempt.run == run; });
}

void quarantine_on_evidence(Change& change, const NodeId& id) {
    const QuarantinePolicy& policy = change.seen().meta.quarantine;
    const Node& node = change.seen().nodes.at(id);
    const std::vector<NodeFailure> failures = telling_failures(change.seen(), node);
    std::set<RunId> runs;
    for (const NodeFailure& failure : failures) runs.insert(failure.attempt.run);
    if (policy.failures == 0 || failures.size() < policy.failures || runs.size() < policy.runs) return;
    const bool last = std::none_of(change.seen().nodes.begin(), change.seen().nodes.end(), [&](const auto& other) {
        return other.first != id && state_for_placement(other.second) == NodeState::ready;
    });
    if (node.state != NodeState::ready || last) return;  // the last node in use is never quarantined
    Node& bad = change.edit(id);
    bad.state = NodeState::quarantined;
    bad.state_reason = evidence(change.seen(), failures, runs.size(), policy);
    change.about(id);
    change.note(notes::quarantined(bad));
    change.nodes_changed();
}

void forget_old_failures(Change& change, const NodeId& id) {
    const Time since{change.now().ms - change.seen().meta.quarantine.window.ms};
    const auto old = [&](const NodeFailure& failure) { return failure.at < since; };
    const auto& failures = change.seen().nodes.at(id).failures;
    if (std::any_of(failures.begin(), failures.end(), old)) std::erase_if(change.edit(id).failures, old);
}

void blame(Change& change, const Attempt& attempt) {
    const NodeId id = attempt.workers[attempt.first_failure->value].seat.node;
    const auto known = change.seen().nodes.find(id);
    if (known == change.seen().nodes.end()) return;
    if (follows_the_run(change.seen(), attempt, id)) return forget_failures_of(change, attempt.id.run);
    forget_old_failures(change, id);
    auto& failures = change.edit(id).failures;
    failures.push_back({.attempt = attempt.id, .at = change.now()});
    if (failures.size() > limits::node_failures) failures.erase(failures.begin());
    quarantine_on_evidence(change, id);
}

void praise(Change& change, const Attempt& attempt) {
    for (const NodeId& id : nodes_of(attempt)) {
        const auto known = change.seen().nodes.find(id);
        if (known != change.seen().nodes.end() && !known->second.failures.empty()) change.edit(id).failures.clear();
    }
    if (change.seen().runs.at(attempt.id.run).failures == 0) return;
    // the code that failed on this node runs on other nodes
    for (const NodeId& id : blamed_by(change.seen(), attempt.id.run)) {
        forget_old_failures(change, id);
        quarantine_on_evidence(change, id);
    }
}

}  // namespace

void judge_nodes(Change& change, const Attempt& attempt) {
    if (attempt.end_as == AttemptState::succeeded) praise(change, attempt);
    if (attempt.end_as == AttemptState::failed && attempt.counted && attempt.first_failure) blame(change, attempt);
}

bool still_moves(Change& change, const Attempt& attempt) {
    for (const NodeId& id : nodes_of(attempt)) {
        const auto node = change.seen().nodes.find(id);
        if (node != change.seen().nodes.end() && node->second.drain_deadline) return true;
    }
    return fits_elsewhere(change, attempt);
}

void request_if_draining(Change& change, AttemptId id) {
    for (const NodeId& node : nodes_of(change.seen().attempts.at(id)))
        if (drains(change.seen(), node)) return request_move(change, id, change.seen().nodes.at(node));
}

bool is_taken_away(const Node& node) {
    const auto* why = std::get_if<reasons::DrainedBy>(&node.state_reason.value());
    return why != nullptr && why->by_itself;
}

bool is_out_of_disk(const Node& node) {
    const auto* why = std::get_if<reasons::DrainedBy>(&node.state_reason.value());
    return why != nullptr && why->by_disk;
}

bool ended_by_its_node(const Cluster& cluster, const NodeId& id, const ExitCause& exit) {
    if (!exit.stopped_by_us || !drains(cluster, id)) return false;
    return is_taken_away(cluster.nodes.at(id));
}

void end_for_drain(Change& change, AttemptId id, const NodeId& node) {
    const Attempt& attempt = change.seen().attempts.at(id);
    if (attempt.state == AttemptState::stopping || terminal(attempt.state)) return;
    const bool more = request_pending(attempt) && attempt.request->reason > RequestReason::drain;
    if (!more) change.edit(id).request = drain_request(change.seen().nodes.at(node));
    end_for_request(change, id);
}

void enforce_drains(Change& change) {
    for (const NodeId& node : change.seen().index.drained_until(change.now())) {
        change.about(node);
        change.note(notes::drain_deadline(node));
        for (const AttemptId id : live_on(change.seen(), node)) end_for_drain(change, id, node);
        change.edit(node).drain_deadline.reset();
    }
}

void on(Change& change, const NodeDrained& event) {
    const auto known = change.seen().nodes.find(event.node);
    if (known == change.seen().nodes.end()) return change.refuse(no_such_node(event.node));
    if (event.by_disk && known->second.state != NodeState::ready) return;  // the node already gets no new bundle
    Node& node = change.edit(event.node);
    (node.state == NodeState::lost ? node.back_as : node.state) = NodeState::draining;
    node.state_reason = reasons::DrainedBy{
        .user = event.by, .text = event.reason, .by_itself = event.by_itself, .by_disk = event.by_disk};
    node.drain_deadline.reset();
    if (event.deadline) node.drain_deadline = change.now() + *event.deadline;
    change.about(event.node);
    change.note(notes::draining(node));
    change.nodes_changed();
    for (const AttemptId id : live_on(change.seen(), event.node)) request_move(change, id, node);
}

// A draining node gets no new bundle already, and its runs are to move.
void on(Change& change, const NodeQuarantined& event) {
    const auto known = change.seen().nodes.find(event.node);
    if (known == change.seen().nodes.end()) return change.refuse(no_such_node(event.node));
    const NodeState state = known->second.state == NodeState::lost ? known->second.back_as : known->second.state;
    if (state == NodeState::draining)
        return change.refuse({ErrorCode::conflict,
                              "node " + event.node.value + " drains: it takes no new workers already",
                              "rtrain node undrain " + event.node.value + " first"});
    Node& node = change.edit(event.node);
    (node.state == NodeState::lost ? node.back_as : node.state) = NodeState::quarantined;
    node.state_reason = reasons::DrainedBy{.user = event.by, .text = event.reason, .quarantined = true};
    change.about(event.node);
    change.note(notes::quarantined(node));
    change.nodes_changed();
}

void on(Change& change, const NodeUndrained& event) {
    const auto known = change.seen().nodes.find(event.node);
    if (known == change.seen().nodes.end()) return change.refuse(no_such_node(event.node));
    if (known->second.state == NodeState::draining && is_taken_away(known->second))
        return change.refuse({ErrorCode::conflict, "the agent of node " + event.node.value + " ends by itself",
                              "the node takes workers again once its next agent has registered"});
    const bool drained_by_disk = known->second.state == NodeState::draining && is_out_of_disk(known->second);
    if (event.by_disk && !drained_by_disk) return;
    if (!event.by_disk && drained_by_disk)
        return change.refuse({ErrorCode::conflict, "the disk of node " + event.node.value + " is nearly full",
                              "make room there: the node takes workers again by itself"});
    Node& node = change.edit(event.node);
    node.drain_deadline.reset();
    node.failures.clear();
    if (node.state == NodeState::lost) {
        node.back_as = NodeState::ready;
    } else {
        node.state = NodeState::ready;
        node.state_reason = {};
    }
    change.about(event.node);
    change.note(notes::in_use_again(event.node));
    change.nodes_changed();
    for (const AttemptId id : live_on(change.seen(), event.node)) cancel_move(change, id);
}

}  // namespace rtrain::core

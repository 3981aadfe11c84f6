// Handles nodes that register, fall silent and leave. A registration lists everything that the node holds. It is
// compared with the head's records, and orders that may have been lost are sent again.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain::core {
namespace {

enum class WasAwaited { no, yes };  // `yes`: the node had not registered since the head's start

// Returns true if a node that its own agent drained is in use again after the next agent's registration: the machine
// was restarted, or a spot node has returned. A node that a person drained stays drained.
bool is_back_in_use(const Node& node, const NodeRegistered& event) {
    if (node.state != NodeState::draining || event.leaves) return false;
    return is_taken_away(node);
}

void record_node(Change& change, const NodeRegistered& event) {
    const auto known = change.seen().nodes.find(event.node);
    Node node = known == change.seen().nodes.end() ? Node{} : known->second;
    const bool comes = node.id.value.empty() || node.state == NodeState::lost;
    const bool changes =
        comes || node.awaited || node.total != event.total || node.gpus != event.gpus || node.labels != event.labels;
    if (comes) {
        node.id = event.node;
        node.state = node.back_as;
        if (node.state == NodeState::ready) node.state_reason = {};
        node.back_as = NodeState::ready;
        node.registered = change.now();
        change.note(notes::node_is(node));
    }
    const bool back = is_back_in_use(node, event);
    if (back) {
        node.state = NodeState::ready;
        node.state_reason = {};
        node.drain_deadline.reset();
        change.note(notes::in_use_again(node.id));
    }
    // The event NodeDrained follows; nothing is placed on the node meanwhile.
    if (event.leaves && node.state == NodeState::ready) {
        node.state = NodeState::draining;
        node.state_reason = reasons::DrainedBy{.user = node.id.value, .text = "its agent ends", .by_itself = true};
    }
    node.awaited = false;
    node.address = event.address;
    node.port = event.port;
    node.labels = event.labels;
    node.total = event.total;
    node.gpus = event.gpus;
    change.about(event.node);
    change.add(std::move(node));
    if (changes || back) change.nodes_changed();
}

// Orders a preparation again that the node may never have received, or has lost. A preparation that is lost again and
// again fails the attempt: it may be what ends the agent. A node that was awaited since the head's start does not count
// against the run, because nothing shows when its agent restarted and why.
void prepare_again(Change& change, const Attempt& attempt, const NodeId& node, WasAwaited was_awaited) {
    const auto times = std::count(attempt.forgotten_by.begin(), attempt.forgotten_by.end(), node);
    if (was_awaited == WasAwaited::no && times >= limits::preparations_forgotten)
        return fail_attempt(
            change, attempt.id, AttemptState::failed,
            reasons::NotPrepared{
                .node = node, .why = "its agent restarted " + std::to_string(times + 1) + " times while it prepared"},
            Counts::no);
    Attempt& edited = change.edit(attempt.id);
    auto& waiting = edited.nodes_waiting;
    if (std::find(waiting.begin(), waiting.end(), node) == waiting.end()) waiting.push_back(node);
    if (was_awaited == WasAwaited::no) edited.forgotten_by.push_back(node);
    prepare_node(change, edited, node);
}

// Sends a preparation or launch again that the node may never have received, or has lost.
void handle_unregistered(Change& change, const Attempt& attempt, const NodeId& node, WasAwaited was_awaited) {
    const bool unstarted = std::all_of(attempt.workers.begin(), attempt.workers.end(), [&](const Worker& worker) {
        return worker.seat.node != node || worker.state == WorkerState::placed;
    });
    switch (attempt.state) {
        case AttemptState::placed:
            return prepare_again(change, attempt, node, was_awaited);
        case AttemptState::starting:
            if (unstarted) return prepare_node(change, attempt, node);
            [[fallthrough]];
        case AttemptState::running:
            // The node's last messages may be on their way. The answer to this order arrives after them and settles the
            // attempt.
            return stop_on_node(change, attempt, node, reasons::NodeForgot{});
        case AttemptState::stopping:
            if (std::find(attempt.nodes_waiting.begin(), attempt.nodes_waiting.end(), node) !=
                attempt.nodes_waiting.end())
                stop_on_node(change, attempt, node, attempt.cause);
            return;
        case AttemptState::succeeded:
        case AttemptState::failed:
        case AttemptState::stopped:
        case AttemptState::lost:
            return;
    }
}

void repeat_orders(Change& change, const Attempt& attempt, const NodeId& node) {
    const auto waits =
        std::find(attempt.nodes_waiting.begin(), attempt.nodes_waiting.end(), node) != attempt.nodes_waiting.end();
    const bool some_unstarted = std::any_of(attempt.workers.begin(), attempt.workers.end(), [&](const Worker& worker) {
        return worker.seat.node == node && worker.state == WorkerState::placed;
    });
    if (attempt.state == AttemptState::placed && waits) prepare_node(change, attempt, node);
    if (attempt.state == AttemptState::starting && some_unstarted)
        change.act(LaunchWorkers{.attempt = attempt.id, .node = node});
    if (attempt.state == AttemptState::stopping) stop_on_node(change, attempt, node, attempt.cause);
    repeat_request(change, attempt, node);
}

void give_up(Change& change, AttemptId id, const Attempt* known, const NodeId& node) {
    Attempt given_up;
    given_up.id = id;
    given_up.incarnation = known == nullptr ? 0 : known->incarnation;
    stop_on_node(change, given_up, node, reasons::GivenUp{});
}

void reconcile(Change& change, const NodeRegistered& event, WasAwaited was_awaited) {
    std::vector<AttemptId> registered;
    for (const AttemptId id : event.held) {
        const Attempt* attempt = meant_attempt(change.seen(), id);
        if (attempt != nullptr && !terminal(attempt->state) && on_node(*attempt, event.node))
            registered.push_back(attempt->id);
        else
            give_up(change, id, attempt, event.node);
    }
    for (const AttemptId id : live_on(change.seen(), event.node)) {
        const Attempt& attempt = change.seen().attempts.at(id);
        if (terminal(attempt.state)) continue;  // a helper has ended with its owner
        if (std::find(registered.begin(), registered.end(), id) != registered.end())
            repeat_orders(change, attempt, event.node);
        else
            handle_unregistered(change, attempt, event.node, was_awaited);
    }
}

bool overcommitted(const Cluster& cluster, const Node& node) {
    Resources allocated;
    std::vector<Amount> gpus(node.gpus);
    for (const AttemptId id : live_on(cluster, node.id)) {
        const Attempt& attempt = cluster.attempts.at(id);
        if (attempt.state == AttemptState::stopping) continue;
        const auto& bundles = cluster.runs.at(id.run).spec.gang.bundles;
        for (std::size_t i = 0; i < attempt.workers.size(); ++i) {
            if (attempt.workers[i].seat.node != node.id) continue;
            add(allocated, bundles[i].demand);
            for (const GpuShare& share : attempt.workers[i].seat.gpus) {
                if (share.device >= gpus.size()) return true;
                gpus[share.device] = gpus[share.device] + share.amount;
            }
        }
    }
    allocated.erase(std::string(gpu_key));
    return std::any_of(allocated.begin(), allocated.end(),
                       [&](const auto& h) { return h.second > amount_of(node.total, h.first); }) ||
           std::any_of(gpus.begin(), gpus.end(), [](Amount gpu) { return gpu > units(1); });
}

// A node that returned smaller cannot hold everything that was placed on it: the youngest attempts are preempted.
void shrink(Change& change, const NodeId& node) {
    while (overcommitted(change.seen(), change.seen().nodes.at(node))) {
        std::optional<AttemptId> youngest;
        for (const AttemptId id : live_on(change.seen(), node))
            if (change.seen().attempts.at(id).state != AttemptState::stopping) youngest = id;
        if (!youngest) return;
        fail_attempt(change, *youngest, AttemptState::failed, reasons::NodeSmaller{node}, Counts::no);
    }
}

void repeat_results(Change& change, const NodeId& node) {
    for (const auto& [id, run] : change.seen().runs) {
        if (!terminal(run.state) || run.attempts == 0 || run.ended + limits::result_repeats < change.now()) continue;
        const auto last = change.seen().attempts.find({.run = id, .number = run.attempts});
        if (last != change.seen().attempts.end() && last->second.workers.front().seat.node == node)
            change.act(WriteResult{.run = id, .node = node});
    }
}

bool done_there(const Attempt& attempt, const NodeId& node) {
    return attempt.state == AttemptState::running &&
           std::all_of(attempt.workers.begin(), attempt.workers.end(), [&](const Worker& worker) {
               return worker.seat.node != node || (worker.exit && worker.exit->success());
           });
}

// Returns true if the run may have caused the loss of the node. A node that leaves was removed by an admin. A node that
// had not registered since the head's start may have been lost before, for any reason.
bool may_be_lost_by_run(const reasons::NodeLost&, WasAwaited was_awaited) { return was_awaited == WasAwaited::no; }
bool may_be_lost_by_run(const reasons::NodeLeft&, WasAwaited) { return false; }

// Ranks on other nodes often fail because of a lost node before the loss is noticed. Then the node counts as the first
// failure.
template <class Gone>
void lost_while_failing(Change& change, AttemptId id, Gone cause, Counts counts, WasAwaited was_awaited) {
    const Attempt& attempt = change.seen().attempts.at(id);
    const bool unheard = std::any_of(attempt.workers.begin(), attempt.workers.end(), [&](const Worker& worker) {
        return worker.seat.node == cause.node && worker.state != WorkerState::exited;
    });
    if (attempt.end_as != AttemptState::failed || !attempt.counted || !unheard) return;
    Attempt& lost = change.edit(id);
    lost.end_as = AttemptState::lost;
    lost.counted = counts == Counts::yes;
    lost.lost_uncounted = !lost.counted && may_be_lost_by_run(cause, was_awaited);
    cause.cause = {std::move(lost.cause)};
    lost.cause = std::move(cause);
    lost.first_failure.reset();
    lost.first_failure_lead_us = 0;
}

template <class Gone>  // `cause` is a NodeLost or a NodeLeft.
void lose_attempts(Change& change, const Gone& cause, Counts counts, Duration silent, WasAwaited was_awaited) {
    for (const AttemptId id : live_on(change.seen(), cause.node)) {
        const Attempt& attempt = change.seen().attempts.at(id);
        if (terminal(attempt.state)) continue;  // a helper has ended with its owner
        const bool elastic = change.seen().runs.at(id.run).spec.elastic.has_value();
        const Counts against = elastic ? Counts::no : counts;
        if (attempt.state == AttemptState::stopping) {
            lost_while_failing(change, id, cause, against, was_awaited);
            node_is_empty(change, id, cause.node);
        } else if (!done_there(attempt, cause.node)) {
            work_ended(change, id, silent);
            // If no worker was launched on the node, the loss does not count against `max_failures`. It counts as a
            // failed start, because the job's `setup` may have run there.
            const bool never_started =
                std::all_of(attempt.workers.begin(), attempt.workers.end(), [&](const Worker& worker) {
                    return worker.seat.node != cause.node || worker.state == WorkerState::placed;
                });
            const Counts counted = never_started ? Counts::no : against;
            if (counted == Counts::no && may_be_lost_by_run(cause, was_awaited)) {
                change.edit(id).lost_in_start = attempt.started_at.ms == 0;
                change.edit(id).lost_uncounted = true;
            }
            fail_attempt(change, id, AttemptState::lost, cause, counted);
        }
    }
}

}  // namespace

Error no_such_node(const NodeId& node) {
    return {ErrorCode::not_found, "no node is called \"" + node.value + "\"", "rtrain nodes lists them"};
}

void on(Change& change, const NodeRegistered& event) {
    if (const auto far = out_of_bounds(event.total))
        return change.refuse({ErrorCode::invalid, "node " + event.node.value + " offers " + *far,
                              "join it again with less: rtrain node join HOST:PORT --resources NAME=AMOUNT"});
    const auto known = change.seen().nodes.find(event.node);
    const bool awaited = known != change.seen().nodes.end() && known->second.awaited;
    record_node(change, event);
    reconcile(change, event, awaited ? WasAwaited::yes : WasAwaited::no);
    shrink(change, event.node);
    repeat_deletions(change, event.node);
    repeat_results(change, event.node);
}

void on(Change& change, const NodeLost& event) {
    const auto known = change.seen().nodes.find(event.node);
    if (known == change.seen().nodes.end() || known->second.state == NodeState::lost) return;
    Node& node = change.edit(event.node);
    const WasAwaited was_awaited = node.awaited ? WasAwaited::yes : WasAwaited::no;
    node.back_as = node.state;
    node.state = NodeState::lost;
    node.awaited = false;
    if (node.back_as == NodeState::ready) node.state_reason = reasons::Silent{event.why};
    change.about(event.node);
    change.note(notes::node_lost(event));
    change.nodes_changed();
    lose_attempts(change, reasons::NodeLost{.node = event.node, .why = event.why}, Counts::yes, event.silent,
                  was_awaited);
}

void on(Change& change, const NodeLeft& event) {
    const auto known = change.seen().nodes.find(event.node);
    if (known == change.seen().nodes.end()) return change.refuse(no_such_node(event.node));
    change.edit(event.node).state = NodeState::lost;
    change.note(notes::node_left(event.node));
    lose_attempts(change, reasons::NodeLeft{.node = event.node}, Counts::no, {}, WasAwaited::no);
    change.erase(event.node);
    change.about(event.node);
    change.nodes_changed();
}

}  // namespace rtrain::core

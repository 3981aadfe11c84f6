// Requests a checkpoint from a running attempt. Its next commit is followed by nothing (an operator's request), by a
// stop of the run, or by the end of this attempt and a new one of another size or on other nodes. One request is
// pending at a time: a stronger reason (a later one in RequestReason) replaces a weaker one. If there is a deadline,
// the consequence follows then in any case. No commit is ever lost: the next attempt starts from the newest one.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/queue/preemption.hpp"

namespace rtrain::core {
namespace {

void send_request(Change& change, const Attempt& attempt, const NodeId& node) {
    const CheckpointRequest& request = *attempt.request;
    RequestCheckpoint order{.attempt = attempt.id,
                            .node = node,
                            .reason = request.reason,
                            .workers = request.workers,
                            .asked = request.asked};
    if (request.deadline) order.left = Duration{std::max<std::int64_t>((*request.deadline - change.now()).ms, 0)};
    change.act(std::move(order));
}

bool is_preemption(const CheckpointRequest& request) {
    return request.preemptor.value != 0 ||
           (request.reason == RequestReason::preemption && !request.why.is<reasons::BudgetUsed>());
}

// Returns the request as it was before other runs needed the attempt's resources.
void request_as_before(Change& change, AttemptId id) {
    request_if_draining(change, id);
    const Attempt& attempt = change.seen().attempts.at(id);
    const Run& run = change.seen().runs.at(id.run);
    // An elastic run grows without a request.
    const bool grows = run.spec.elastic && run.workers_asked > attempt.workers.size();
    if (request_pending(attempt) || run.workers_asked == 0 || run.workers_asked == attempt.workers.size() || grows)
        return;
    CheckpointRequest request{
        .reason = RequestReason::resize,
        .why = reasons::ResizeRequested{.user = {},
                                        .workers = run.workers_asked,
                                        .instead_of = static_cast<std::uint32_t>(attempt.workers.size())},
        .workers = run.workers_asked};
    if (run.resize_within) request.deadline = change.now() + *run.resize_within;
    request_checkpoint(change, id, std::move(request));
}

// Removes the preemption from the attempt's request, because no run needs the resources any more.
void withdraw_request(Change& change, AttemptId id) {
    Attempt& attempt = change.edit(id);
    change.about(id.run);
    change.look_for_room();
    if (attempt.request->reason == RequestReason::stop) {  // The user requested a stop at the next commit.
        attempt.request->deadline.reset();
        attempt.request->preemptor = {};
        change.note(notes::until_next_checkpoint(name_of(change.seen(), id.run)));
        for (const NodeId& node : nodes_of(attempt)) send_request(change, attempt, node);
        return;
    }
    attempt.request.reset();
    change.note(notes::not_preempted(name_of(change.seen(), id.run)));
    request_as_before(change, id);
}

}  // namespace

void request_checkpoint(Change& change, AttemptId id, CheckpointRequest request) {
    Attempt& attempt = change.edit(id);
    // The pending request has a greater consequence.
    if (request_pending(attempt) && attempt.request->reason > request.reason) return;
    if (request_pending(attempt) && attempt.request->preemptor.value != 0 && request.preemptor.value == 0)
        change.look_for_room();
    const bool again = request_pending(attempt) && attempt.request->reason == request.reason &&
                       attempt.request->workers == request.workers;
    // A request is replaced by an equal one: it keeps its first time, so that a commit that answers the first one
    // answers both.
    request.asked = again ? attempt.request->asked : change.now();
    attempt.request = std::move(request);
    change.about(id.run);
    change.note(notes::checkpoint_requested(name_of(change.seen(), id.run), *attempt.request));
    for (const NodeId& node : nodes_of(attempt)) send_request(change, attempt, node);
}

void repeat_request(Change& change, const Attempt& attempt, const NodeId& node) {
    if (request_pending(attempt)) send_request(change, attempt, node);
}

// Ends the attempt. The consequence of its request follows when its nodes are empty (finish_attempt).
void end_for_request(Change& change, AttemptId id) {
    const CheckpointRequest& request = *change.seen().attempts.at(id).request;
    const Reason why = request.why;
    if (request.reason == RequestReason::stop) return stop_run(change, id.run, AttemptState::stopped, why);
    Run& run = change.edit(id.run);
    if (request.reason == RequestReason::resize) run.state = RunState::resizing;
    if (request.reason == RequestReason::preemption) end_helpers(change, id.run);
    run.reason = why;
    change.about(id.run);
    change.note(notes::ends_for(run.name, id, request));
    begin_stop(change, id, AttemptState::stopped, why);
}

// A checkpoint that was already on its way at the request contains nothing that was trained since. If the attempt ended
// with it, that work would be lost although there is time for another checkpoint.
void fulfil_request(Change& change, AttemptId id, std::optional<Time> answers) {
    if (!request_pending(change.seen().attempts.at(id))) return;
    if (answers && *answers != change.seen().attempts.at(id).request->asked) return;
    if (change.seen().attempts.at(id).request->reason == RequestReason::by_operator) {
        change.edit(id).request.reset();
        return;
    }
    const Attempt& attempt = change.seen().attempts.at(id);
    const bool for_others = is_preemption(*attempt.request) && attempt.request->reason != RequestReason::stop;
    std::size_t looks = requests_looked_at(change.seen());
    if (for_others && !find_preemptor(change, attempt, looks)) return withdraw_request(change, id);
    if (attempt.request->reason == RequestReason::resize && !still_resizes(change, attempt)) return;
    if (attempt.request->reason == RequestReason::drain && !still_moves(change, attempt)) return;
    end_for_request(change, id);
}

void enforce_requests(Change& change) {
    std::size_t looks = requests_looked_at(change.seen());
    for (const AttemptId id : change.seen().index.requests_due(change.now())) {
        // The run has reached a limit since then, and its request is gone.
        if (!request_pending(change.seen().attempts.at(id))) continue;
        const Attempt& attempt = change.seen().attempts.at(id);
        if (is_preemption(*attempt.request) && !find_preemptor(change, attempt, looks)) {
            withdraw_request(change, id);
            continue;
        }
        if (attempt.request->reason == RequestReason::resize && !still_resizes(change, attempt)) continue;
        change.note(notes::no_checkpoint_in_time(name_of(change.seen(), id.run)));
        end_for_request(change, id);
    }
}

void withdraw_requests(Change& change) {
    std::size_t looks = requests_looked_at(change.seen());
    const ClusterIndex& index = change.seen().index;
    for (const AttemptId id : index.requests_due(unknown_end)) {
        const Attempt& attempt = change.seen().attempts.at(id);
        if (!request_pending(attempt) || attempt.request->preemptor.value == 0 ||
            index.waits(attempt.request->preemptor))
            continue;
        const auto preemptor = find_preemptor(change, attempt, looks);
        if (!preemptor) {
            withdraw_request(change, id);
            continue;
        }
        CheckpointRequest& request = *change.edit(id).request;
        request.preemptor = *preemptor;
        if (request.reason != RequestReason::stop) request.why = preempted_by(change.seen().runs.at(*preemptor));
    }
}

// Preempts runs whose budget is used up, where their queue has `budget_preempts`. Withdraws the request if the budget
// has room again.
void enforce_budgets(Change& change) {
    const auto& rules = change.seen().queues.rules;
    if (std::none_of(rules.begin(), rules.end(), [](const auto& entry) { return entry.second.budget_preempts; }))
        return;
    change.settle();
    const Quotas quotas(change.seen());
    for (const AttemptId id : std::set<AttemptId>(change.seen().index.live_attempts())) {
        const Attempt& attempt = change.seen().attempts.at(id);
        if (attempt.state == AttemptState::stopping || terminal(attempt.state)) continue;
        const Run& run = change.seen().runs.at(id.run);
        const auto over = quotas.beyond_budget(run.spec.queue, allocated_to(change.seen(), attempt),
                                               {.record = &run, .user = &run.user});
        const bool requested = request_pending(attempt) && attempt.request->why.is<reasons::BudgetUsed>();
        if (requested && !over) withdraw_request(change, id);
        if (!over || (request_pending(attempt) && attempt.request->reason >= RequestReason::preemption)) continue;
        CheckpointRequest request{.reason = RequestReason::preemption, .why = reason_of(*over)};
        request.deadline = change.now() + change.seen().queues.preemption_grace;
        if (attempt.state == AttemptState::running) {
            request_checkpoint(change, id, std::move(request));
            continue;
        }
        request.asked = change.now();  // The attempt's workers have not begun, so nothing is lost.
        change.edit(id).request = std::move(request);
        end_for_request(change, id);
    }
}

// The attempt was ended on request, not by a failure. Its run is placed anew at once, and no failure is counted.
void place_anew(Change& change, const Attempt& attempt) {
    Run& run = change.edit(attempt.id.run);
    const bool preempted = attempt.request && attempt.request->reason == RequestReason::preemption;
    if (preempted && may_yield(run)) return end_run(change, run.id, RunState::stopped, attempt.cause);
    run.state = preempted ? RunState::queued : RunState::recovering;
    run.reason = attempt.cause;
    // A preempted run gives up its position until its preemptor has taken the resources. Otherwise it could be before
    // the preemptor in the queue, take the resources again, and be preempted again.
    run.retry_at = preempted ? change.now() + limits::yields_position : change.now();
    change.look_for_room();
}

void on(Change& change, const RunCheckpointAsked& event) {
    const auto entry = change.seen().runs.find(event.run);
    if (entry == change.seen().runs.end()) return change.refuse(no_such_run(change.seen(), event.run));
    const Attempt* attempt = live_attempt(change.seen(), event.run);
    if (attempt == nullptr || attempt->state != AttemptState::running)
        return change.refuse(
            {ErrorCode::conflict,
             "run " + entry->second.name + " is " + to_text(entry->second.state) + ", no worker of it trains",
             "rtrain describe " + entry->second.name});
    change.about(event.run);
    if (request_pending(*attempt)) {  // A request is pending: it is sent again.
        for (const NodeId& node : nodes_of(*attempt)) repeat_request(change, *attempt, node);
        return;
    }
    CheckpointRequest request{.reason = RequestReason::by_operator, .why = reasons::RequestedBy{.user = event.by}};
    request_checkpoint(change, attempt->id, std::move(request));
}

}  // namespace rtrain::core

// Requests checkpoints, within the grace, from the victims that queue/preemption.cpp has chosen.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/queue/preemption.hpp"

namespace rtrain::core {
namespace {

void request_end(Change& change, const Victim& victim, const Run& preemptor) {
    const Attempt& attempt = change.seen().attempts.at(victim.attempt);
    if (request_pending(attempt) &&
        attempt.request->reason == RequestReason::stop) {  // The attempt ends at its next commit, or earlier.
        CheckpointRequest sooner = *attempt.request;
        sooner.deadline = change.now() + change.seen().queues.preemption_grace;
        sooner.preemptor = preemptor.id;
        return request_checkpoint(change, victim.attempt, std::move(sooner));
    }
    CheckpointRequest request;
    request.reason = victim.keeps > 0 ? RequestReason::resize : RequestReason::preemption;
    request.why = preempted_by(preemptor);
    request.deadline = change.now() + change.seen().queues.preemption_grace;
    request.workers = victim.keeps;
    request.preemptor = preemptor.id;
    if (attempt.state == AttemptState::running) return request_checkpoint(change, victim.attempt, std::move(request));
    request.asked = change.now();  // The attempt's workers have not begun, so nothing is lost.
    change.edit(victim.attempt).request = std::move(request);
    end_for_request(change, victim.attempt);
}

}  // namespace

std::optional<PreemptionRequested> request_preemption(Change& change, const Quotas& quotas, RunId waiting,
                                                      ReservationMask open) {
    // The waiting run may fit without any victim once the awaited nodes have registered.
    const auto& nodes = change.index().nodes();
    if (std::any_of(nodes.begin(), nodes.end(), [](const NodeView& node) { return node.awaited; })) return std::nullopt;
    const auto plan = plan_preemption(change, quotas, waiting, open);
    if (!plan) return std::nullopt;
    for (const Victim& victim : plan->victims) request_end(change, victim, change.seen().runs.at(waiting));
    return PreemptionRequested{.requested_now = !plan->victims.empty(), .by = plan->by};
}

}  // namespace rtrain::core

// Asks those whom queue/preemption.cpp has chosen to give way: for a checkpoint, within the grace.
#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/queue/preemption.hpp"

namespace rtrain::core {
namespace {

void ask_to_go(Change& change, const Victim& victim, const Run& taker) {
    const Attempt& attempt = change.seen().attempts.at(victim.attempt);
    if (asks_pending(attempt) && attempt.ask->reason == AskReason::stop) {  // it ends at its next commit, or sooner
        CheckpointAsk sooner = *attempt.ask;
        sooner.deadline = change.now() + change.seen().queues.preemption_grace;
        sooner.room_for = taker.id;
        return ask_checkpoint(change, victim.attempt, std::move(sooner));
    }
    CheckpointAsk ask;
    ask.reason = victim.keeps > 0 ? AskReason::resize : AskReason::preemption;
    ask.why = gives_way_to(taker);
    ask.deadline = change.now() + change.seen().queues.preemption_grace;
    ask.workers = victim.keeps;
    ask.room_for = taker.id;
    if (attempt.state == AttemptState::running) return ask_checkpoint(change, victim.attempt, std::move(ask));
    ask.asked = change.now();  // its workers have not begun: nothing is lost
    change.edit(victim.attempt).ask = std::move(ask);
    leave(change, victim.attempt);
}

}  // namespace

std::optional<RoomToCome> make_room(Change& change, const Quotas& quotas, RunId waiting, Doors open) {
    const auto plan = plan_preemption(change, quotas, waiting, open);
    if (!plan) return std::nullopt;
    for (const Victim& victim : plan->victims) ask_to_go(change, victim, change.seen().runs.at(waiting));
    return RoomToCome{.asked_now = !plan->victims.empty(), .by = plan->by};
}

}  // namespace rtrain::core

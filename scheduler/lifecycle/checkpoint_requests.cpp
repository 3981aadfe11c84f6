// A running attempt is asked for a checkpoint, and something follows its next commit: nothing (an operator asked), a
// stop of the run, or the end of this attempt and another one of another size or on other nodes. One ask is pending at
// a time: a stronger reason (the later one in AskReason) takes a weaker one's place. With a deadline what follows
// happens then in any case. Nothing that was committed is ever lost by it: the next attempt starts from the newest
// commit.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/queue/preemption.hpp"

namespace rtrain::core {
namespace {

void tell_node(Change& change, const Attempt& attempt, const NodeId& node) {
    const CheckpointAsk& ask = *attempt.ask;
    AskCheckpoint order{
        .attempt = attempt.id, .node = node, .reason = ask.reason, .workers = ask.workers, .asked = ask.asked};
    if (ask.deadline) order.left = Duration{std::max<std::int64_t>((*ask.deadline - change.now()).ms, 0)};
    change.act(std::move(order));
}

// Without an attempt that could be lost: what follows the ask.
std::string what_follows(const CheckpointAsk& ask) {
    switch (ask.reason) {
        case AskReason::by_operator:
            return "goes on";
        case AskReason::resize:
            return "resizes to " + std::to_string(ask.workers) + " workers";
        case AskReason::drain:
        case AskReason::preemption:
            return "is moved";
        case AskReason::stop:
            return "stops";
    }
    return "";
}

bool gives_way(const CheckpointAsk& ask) { return ask.room_for.value != 0 || ask.reason == AskReason::preemption; }

// What it was asked for before others wanted its room.
void ask_as_before(Change& change, AttemptId id) {
    ask_if_draining(change, id);
    const Attempt& attempt = change.seen().attempts.at(id);
    const Run& run = change.seen().runs.at(id.run);
    const bool grows = run.spec.elastic && run.workers_asked > attempt.workers.size();  // that comes by itself
    if (asks_pending(attempt) || run.workers_asked == 0 || run.workers_asked == attempt.workers.size() || grows) return;
    CheckpointAsk ask{.reason = AskReason::resize,
                      .why = "asked for " + std::to_string(run.workers_asked) + " workers instead of " +
                             std::to_string(attempt.workers.size()),
                      .workers = run.workers_asked};
    if (run.resize_within) ask.deadline = change.now() + *run.resize_within;
    ask_checkpoint(change, id, std::move(ask));
}

// Its room is not wanted any more.
void stays(Change& change, AttemptId id) {
    Attempt& attempt = change.edit(id);
    change.about(id.run);
    change.look_for_room();
    if (attempt.ask->reason == AskReason::stop) {  // as its user wished: at its next commit
        attempt.ask->deadline.reset();
        attempt.ask->room_for = {};
        change.note(name_of(change.seen(), id.run) + " has until its next checkpoint: nobody needs its room any more");
        for (const NodeId& node : nodes_of(attempt)) tell_node(change, attempt, node);
        return;
    }
    attempt.ask.reset();
    change.note(name_of(change.seen(), id.run) + " stays: nobody needs its room any more");
    ask_as_before(change, id);
}

}  // namespace

void ask_checkpoint(Change& change, AttemptId id, CheckpointAsk ask) {
    Attempt& attempt = change.edit(id);
    if (asks_pending(attempt) && attempt.ask->reason > ask.reason) return;  // more follows that one
    if (asks_pending(attempt) && attempt.ask->room_for.value != 0 && ask.room_for.value == 0) change.look_for_room();
    const bool again =
        asks_pending(attempt) && attempt.ask->reason == ask.reason && attempt.ask->workers == ask.workers;
    ask.asked = again ? attempt.ask->asked : change.now();  // a commit that answers the first answers both
    attempt.ask = std::move(ask);
    change.about(id.run);
    change.note(name_of(change.seen(), id.run) + " is asked for a checkpoint, then it " + what_follows(*attempt.ask) +
                ": " + attempt.ask->why);
    for (const NodeId& node : nodes_of(attempt)) tell_node(change, attempt, node);
}

void repeat_ask(Change& change, const Attempt& attempt, const NodeId& node) {
    if (asks_pending(attempt)) tell_node(change, attempt, node);
}

// The attempt ends here, and what it was asked for follows once its nodes are empty (finish_attempt).
void leave(Change& change, AttemptId id) {
    const CheckpointAsk& ask = *change.seen().attempts.at(id).ask;
    const std::string why = ask.why;
    if (ask.reason == AskReason::stop) return stop_run(change, id.run, AttemptState::stopped, why);
    Run& run = change.edit(id.run);
    if (ask.reason == AskReason::resize) run.state = RunState::resizing;
    run.reason = why;
    change.about(id.run);
    change.note(run.name + " attempt " + std::to_string(id.number) + " ends, its run " + what_follows(ask) + ": " +
                why);
    begin_stop(change, id, AttemptState::stopped, why);
}

// A checkpoint that was on its way when it was asked for holds nothing of what was trained since: who leaves with it
// would lose that while there is time for another.
void commit_answers(Change& change, AttemptId id, std::optional<Time> answers) {
    if (!asks_pending(change.seen().attempts.at(id))) return;
    if (answers && *answers != change.seen().attempts.at(id).ask->asked) return;
    if (change.seen().attempts.at(id).ask->reason == AskReason::by_operator) {
        change.edit(id).ask.reset();
        return;
    }
    const Attempt& attempt = change.seen().attempts.at(id);
    const bool for_others = gives_way(*attempt.ask) && attempt.ask->reason != AskReason::stop;
    std::size_t looks = asks_looked_at(change.seen());
    if (for_others && !still_wanted_by(change, attempt, looks)) return stays(change, id);
    if (attempt.ask->reason == AskReason::resize && !still_resizes(change, attempt)) return;
    if (attempt.ask->reason == AskReason::drain && !still_moves(change, attempt)) return;
    leave(change, id);
}

void enforce_asks(Change& change) {
    std::size_t looks = asks_looked_at(change.seen());
    for (const AttemptId id : change.seen().ledger.asked_until(change.now())) {
        if (!asks_pending(change.seen().attempts.at(id))) continue;  // its run has reached a limit
        const Attempt& attempt = change.seen().attempts.at(id);
        if (gives_way(*attempt.ask) && !still_wanted_by(change, attempt, looks)) {
            stays(change, id);
            continue;
        }
        if (attempt.ask->reason == AskReason::resize && !still_resizes(change, attempt)) continue;
        change.note(name_of(change.seen(), id.run) + " committed no checkpoint until the deadline");
        leave(change, id);
    }
}

void withdraw_asks(Change& change) {
    std::size_t looks = asks_looked_at(change.seen());
    const Ledger& ledger = change.seen().ledger;
    for (const AttemptId id : ledger.asked_until(unknown_end)) {
        const Attempt& attempt = change.seen().attempts.at(id);
        if (!asks_pending(attempt) || attempt.ask->room_for.value == 0 || ledger.waits(attempt.ask->room_for)) continue;
        const auto wanted_by = still_wanted_by(change, attempt, looks);
        if (!wanted_by) {
            stays(change, id);
            continue;
        }
        CheckpointAsk& ask = *change.edit(id).ask;
        ask.room_for = *wanted_by;
        if (ask.reason != AskReason::stop) ask.why = gives_way_to(change.seen().runs.at(*wanted_by));
    }
}

// The attempt was ended by us, not by a failure: its run is placed anew at once, and nothing is counted against it.
void place_anew(Change& change, const Attempt& attempt) {
    Run& run = change.edit(attempt.id.run);
    const bool preempted = attempt.ask && attempt.ask->reason == AskReason::preemption;
    run.state = preempted ? RunState::queued : RunState::recovering;
    run.reason = attempt.cause;
    // One that gave way stands aside until the other has taken the room: it may be before it in the queue, take the
    // room again, and be asked again.
    run.retry_at = preempted ? change.now() + limits::stands_aside : change.now();
    change.look_for_room();
}

void on(Change& change, const RunCheckpointAsked& event) {
    const auto found = change.seen().runs.find(event.run);
    if (found == change.seen().runs.end()) return change.refuse(no_such_run(change.seen(), event.run));
    const Attempt* attempt = live_attempt(change.seen(), event.run);
    if (attempt == nullptr || attempt->state != AttemptState::running)
        return change.refuse(
            {ErrorCode::conflict,
             "run " + found->second.name + " is " + to_text(found->second.state) + ", no worker of it trains",
             "rtrain describe " + found->second.name});
    change.about(event.run);
    if (asks_pending(*attempt)) {  // it is asked for one already: said again
        for (const NodeId& node : nodes_of(*attempt)) repeat_ask(change, *attempt, node);
        return;
    }
    CheckpointAsk ask{.reason = AskReason::by_operator, .why = "asked by " + event.by};
    ask_checkpoint(change, attempt->id, std::move(ask));
}

}  // namespace rtrain::core

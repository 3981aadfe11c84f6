// Runs that may yield: helpers of a run or of a driver's session, such as its data workers and its idle pools of tasks.
// Such a run ends with its owner. While it yields, it also ends for any run that would start by that. An ended one is
// not queued again.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"

namespace rtrain::core {
namespace {

// The most time that a helper may take to end, since another user's run waits for it.
constexpr Duration stop_grace_most{30'000};

// Returns true if helpers of the run may begin: it has seats, or recovers from a failure.
bool keeps_helpers(const Cluster& cluster, const Run& run) {
    if (terminal(run.state) || run.state == RunState::stopping || run.state == RunState::queued) return false;
    const Attempt* live = live_attempt(cluster, run.id);
    const bool preempted = live != nullptr && live->state == AttemptState::stopping && live->request &&
                           live->request->reason == RequestReason::preemption;
    return !preempted;
}

void end_helper(Change& change, RunId id, const Reason& reason) {
    const Run& run = change.seen().runs.at(id);
    if (terminal(run.state) || run.state == RunState::stopping) return;
    stop_run(change, id, AttemptState::stopped, reason);
}

}  // namespace

std::optional<Error> wrong_helper(const Cluster& cluster, const RunSubmitted& event) {
    if (event.yielding == Yielding::never) return std::nullopt;
    if (event.spec.gang.bundles.size() != 1 || event.spec.elastic || !event.array.empty() || event.resume)
        return Error{ErrorCode::invalid, "yields: a run that may yield has one worker, and is no array and not resumed",
                     "leave yields out, or set scaling.workers to 1"};
    if (event.spec.stop_grace > stop_grace_most)
        return Error{ErrorCode::invalid,
                     "yields: limits.stop_grace of a run that may yield is at most 30 s, since runs wait for it",
                     "set limits.stop_grace to 30s or less"};
    if (event.parent.value == 0 && !event.program.empty()) return std::nullopt;  // a session owns it
    const auto owner = cluster.runs.find(event.parent);
    if (owner == cluster.runs.end())
        return Error{ErrorCode::invalid, "yields: the run has no owner, with which it would end",
                     "submit it from a worker of a run, or with a session"};
    if (keeps_helpers(cluster, owner->second)) return std::nullopt;
    return Error{ErrorCode::conflict,
                 "run " + owner->second.name + ", to which this one would belong, is " + to_text(owner->second.state) +
                     " or loses its seats",
                 "submit it again once the run has workers"};
}

bool ends_for_others(const Reason& reason) {
    return reason.is<reasons::YieldedTo>() || reason.is<reasons::OwnerEnded>() || reason.is<reasons::NodeDrains>();
}

void end_for(Change& change, RunId yielding, const Run& other) {
    end_helper(change, yielding, reasons::YieldedTo{.run = other.name, .user = other.user, .queue = other.spec.queue});
}

void end_helpers(Change& change, RunId owner) {
    for (const RunId id : change.seen().index.helpers(owner))
        end_helper(change, id, reasons::OwnerEnded{.owner = name_of(change.seen(), owner)});
}

// A run that begins to yield ends at once if a waiting run would start by that.
void on(Change& change, const RunYieldsChanged& event) {
    const auto entry = change.seen().runs.find(event.run);
    if (entry == change.seen().runs.end()) return change.refuse(no_such_run(change.seen(), event.run));
    const Run& seen = entry->second;
    if (!may_yield(seen))
        return change.refuse({ErrorCode::conflict, "run " + seen.name + " was not submitted with yields",
                              "submit a run with yields: true or false"});
    if (terminal(seen.state) || seen.state == RunState::stopping)
        return change.refuse(
            {ErrorCode::conflict,
             "run " + seen.name + " is " + to_text(seen.state) + ": " + to_text(seen.reason, JobWords::hidden),
             "submit another run"});
    if (seen.yielding == event.yielding || event.yielding == Yielding::never) return;
    Run& run = change.edit(event.run);
    run.yielding = event.yielding;
    if (yields(run)) drop_reservation(run);
    change.about(event.run);
    change.note(notes::yields_changed(run, event.by));
    change.look_for_room();
}

}  // namespace rtrain::core

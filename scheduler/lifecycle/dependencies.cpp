// Runs that wait for other runs (`--after`), and job arrays (`--array`), in which one submission makes several runs.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"

namespace rtrain::core {
namespace {

bool satisfied(const After& after, RunState state) {
    return state == RunState::succeeded || (terminal(state) && after.what == AfterWhat::ended);
}

bool waits_for(const Run& run, RunId other) {
    return !terminal(run.state) && std::any_of(run.after.begin(), run.after.end(),
                                               [&](const After& predecessor) { return predecessor.run == other; });
}

}  // namespace

std::optional<Error> wrong_after(const Cluster& cluster, const RunSpec& spec) {
    for (const After& after : spec.after) {
        const auto entry = cluster.runs.find(after.run);
        if (entry == cluster.runs.end()) return no_such_run(cluster, after.run);
        const Run& before = entry->second;
        if (terminal(before.state) && !satisfied(after, before.state))
            return Error{ErrorCode::conflict,
                         "after: run " + before.name + " is " + to_text(before.state) + ", it cannot succeed any more",
                         "restore it first, or say " + before.name + ":ended"};
    }
    return std::nullopt;
}

std::vector<After> still_to_come(const Cluster& cluster, const RunSpec& spec) {
    std::vector<After> waits = spec.after;
    std::erase_if(waits, [&](const After& predecessor) {
        return satisfied(predecessor, cluster.runs.at(predecessor.run).state);
    });
    return waits;
}

namespace {

Reason predecessor_ended(const Change& change, RunId id, RunState state) {
    return reasons::PredecessorEnded{.name = name_of(change.seen(), id), .state = state};
}

bool is_lost(const Run& run, RunId id, RunState state) {
    return std::any_of(run.after.begin(), run.after.end(), [&](const After& predecessor) {
        return predecessor.run == id && !satisfied(predecessor, state);
    });
}

// Handles the end of a predecessor for arrays whose runs are not all made. The runs that are still to be made no longer
// wait for it, or are to end.
void settle_pending_arrays(Change& change, RunId id, RunState state) {
    std::vector<RunId> waiting;
    for (const auto& [first, array] : change.seen().arrays)
        if (waits_for(array.model, id)) waiting.push_back(first);
    for (const RunId first : waiting) {
        Run& model = change.edit_array(first).model;
        if (is_lost(model, id, state)) {
            model.state = state == RunState::stopped ? RunState::stopped : RunState::failed;
            model.reason = predecessor_ended(change, id, state);
            model.after.clear();
        }
        std::erase_if(model.after, [&](const After& predecessor) { return predecessor.run == id; });
    }
}

}  // namespace

void settle_dependents(Change& change, RunId id, RunState state) {
    settle_pending_arrays(change, id, state);
    for (const RunId other : change.seen().index.dependents(id)) {
        if (!waits_for(change.seen().runs.at(other), id)) continue;
        Run& run = change.edit(other);
        if (is_lost(run, id, state)) {
            const RunState end = state == RunState::stopped ? RunState::stopped : RunState::failed;
            end_run(change, other, end, predecessor_ended(change, id, state));
            continue;
        }
        std::erase_if(run.after, [&](const After& predecessor) { return predecessor.run == id; });
        run.reason = blocked_by(change.seen(), run);
        if (run.reason.none()) run.let_go = change.now();
        change.look_for_room();
    }
}

// Lets the next member of a job array that its limit held back be placed, because another member has ended.
void settle_array(Change& change, const Run& ended) {
    if (ended.array.empty() || ended.array_parallel == 0 || ended.array_waits) return;
    const auto next = change.seen().index.next_of(ended.array, ended.user);
    if (!next) return release_place(change, ended);
    if (terminal(change.seen().runs.at(*next).state)) return;
    Run& run = change.edit(*next);
    run.array_waits = false;
    run.reason = blocked_by(change.seen(), run);
    if (run.reason.none()) run.let_go = change.now();
    change.settle();  // If another member ends in the same event, it must release the one after.
    change.look_for_room();
}

Reason blocked_by(const Cluster& cluster, const Run& run) {
    if (!run.after.empty()) {
        reasons::AfterRuns reason;
        for (const After& predecessor : run.after)
            reason.runs.push_back({.name = name_of(cluster, predecessor.run), .until = predecessor.what});
        return reason;
    }
    if (!run.array_waits) return {};
    return reasons::ArrayLimit{.array = run.array, .parallel = run.array_parallel};
}

}  // namespace rtrain::core

// Handles the actions of users, and the time: submit, stop, remove, limits.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/placement/room.hpp"
#include "scheduler/queue/shares.hpp"

namespace rtrain::core {
namespace {

std::string text_of(const Cluster& cluster, const Run& run) {
    return "\"" + run.name + "\" (" + run_id_text(cluster.meta.cluster_id, run.id) + ")";
}

// Returns the run that an earlier copy of this submission has created.
const Run* earlier_submission(const Cluster& cluster, const RunSubmitted& event) {
    if (event.submit_key.empty()) return nullptr;
    const auto id = cluster.index.submitted(event.user, event.submit_key);
    return id ? &cluster.runs.at(*id) : nullptr;
}

std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

Error no_such_queue(const Queues& queues, const std::string& queue) {
    const auto names = queue_names(queues);
    return {ErrorCode::invalid, "queue: there is no queue \"" + queue + "\", this cluster has " + listed(names),
            (queues.rules.empty() ? "leave queue out" : "name one of these: " + listed(names)) +
                ", or have an admin make it: rtrain queue set " + queue};
}

std::string first_reasons(const PlacementAnswer& answer) {
    std::string text;
    const std::size_t shown = std::min<std::size_t>(answer.reasons.size(), 3);
    for (std::size_t i = 0; i < shown; ++i)
        text += (i == 0 ? "" : "; ") + answer.reasons[i].node.value + ": " + answer.reasons[i].text;
    if (answer.reasons.size() > shown) text += "; and " + std::to_string(answer.reasons.size() - shown) + " more";
    return text.empty() ? "there is no node" : text;
}

std::optional<RunId> live_under_name(const ClusterIndex& index, const RunSubmitted& event) {
    if (event.array.empty()) return index.live_run(event.name);
    for (const std::uint32_t member : event.array)
        if (const auto live = index.live_run(array_member(event.name, member))) return live;
    return std::nullopt;
}

std::optional<Error> refusal(const Cluster& cluster, const RunSubmitted& event) {
    if (const auto live = live_under_name(cluster.index, event)) {
        const Run& run = cluster.runs.at(*live);
        return Error{ErrorCode::conflict,
                     "run " + text_of(cluster, run) + " is " + to_text(run.state) + " under this name",
                     "choose another name, or rtrain stop " + run.name};
    }
    if (const auto promised = promised_name(cluster, event))
        return Error{ErrorCode::conflict, "a job array that is being made has a run \"" + *promised + "\"",
                     "choose another name"};
    if (!known_queue(cluster.queues, event.spec.queue)) return no_such_queue(cluster.queues, event.spec.queue);
    if (auto error = wrong_after(cluster, event.spec)) return error;
    if (auto error = wrong_helper(cluster, event)) return error;
    const auto& nodes = cluster.index.nodes();
    const auto most = static_cast<std::uint32_t>(event.spec.gang.bundles.size());
    const GangRequest gang = gang_of(event.spec, event.spec.elastic ? event.spec.elastic->workers_min : most);
    auto wrong = placing::invalid_because(nodes, gang);
    for (std::size_t i = 0; i < gang.bundles.size() && !wrong; ++i)
        if (i == 0 || gang.bundles[i] != gang.bundles[i - 1])
            if (const auto far = out_of_bounds(gang.bundles[i].demand)) wrong = "a worker asks for " + *far;
    PlacementAnswer answer;
    if (!event.spec.wait_for_nodes && !wrong) answer = place(nodes, gang);
    if (wrong) return Error{ErrorCode::invalid, *wrong, "correct the job's resources"};
    if (!event.spec.wait_for_nodes && answer.verdict == Verdict::infeasible) {
        const auto quotas = quota_room(Quotas(cluster), event.spec.queue, {});
        const PlacementAnswer why = placing::explain_briefly(nodes, gang, quotas);
        return Error{ErrorCode::unplaceable, "no present node could ever hold it: " + first_reasons(why),
                     why.nearest_change.empty()
                         ? "rtrain plan shows what is missing; scaling.wait_for_nodes: true queues it"
                         : why.nearest_change};
    }
    return std::nullopt;
}

void enforce_limits(Change& change, RunId id) {
    const Run& run = change.seen().runs.at(id);
    const auto limit = limit_of(change.seen(), run);
    if (!limit || *limit > change.now()) return;
    if (run.started.ms == 0) return end_run(change, id, RunState::failed, reasons::QueueTime{});
    stop_run(change, id, AttemptState::failed, reasons::WallTime{});
}

// Returns a run with the values that all runs of the submission share.
Run run_of(const Change& change, const RunSubmitted& event) {
    Run run;
    run.id = {change.seen().meta.next_run};
    run.name = event.name;
    run.user = event.user;
    run.spec = event.spec;
    run.job_json = event.job_json;
    run.storage_path = event.storage_path;
    run.resume = event.resume;
    run.restore_from = event.restore_from;
    run.submit_key = event.submit_key;
    run.submitted = change.now();
    run.submitted_wall_ms = event.wall_ms;
    run.warnings = event.warnings;
    run.program = event.program;
    run.yielding = event.yielding;
    run.parent = event.parent;
    run.after = still_to_come(change.seen(), event.spec);
    run.array = event.member_of;
    run.array_index = event.member_index;
    return run;
}

void submit_array(Change& change, const RunSubmitted& event, Run model) {
    change.edit_meta().next_run += event.array.size();
    model.array = event.name;
    model.array_parallel = event.array_parallel;
    PendingArray array{.model = std::move(model), .indices = event.array};
    std::sort(array.indices.begin(), array.indices.end());
    begin_array(change, std::move(array));
    change.note(notes::array_submitted(event.name, event.array.size(), event.user));
}

void submit_one(Change& change, Run run) {
    ++change.edit_meta().next_run;
    run.reason = blocked_by(change.seen(), run);
    change.note(notes::submitted(run));
    change.add(std::move(run));
    change.look_for_room();
}

// --checkpoint: requests a checkpoint first. An attempt that does not train yet has nothing to save.
bool checkpoint_first(Change& change, const RunStopAsked& event) {
    const Attempt* live = live_attempt(change.seen(), event.run);
    if (!event.checkpoint || live == nullptr || live->state != AttemptState::running) return false;
    CheckpointRequest request{.reason = RequestReason::stop,
                              .why = reasons::StoppedBy{.user = change.seen().runs.at(event.run).stop_by}};
    if (event.deadline) request.deadline = change.now() + *event.deadline;
    request_checkpoint(change, live->id, std::move(request));
    return true;
}

}  // namespace

Error no_such_run(const Cluster& cluster, RunId run) {
    return {ErrorCode::not_found, "no run " + run_id_text(cluster.meta.cluster_id, run), "rtrain runs lists them"};
}

void stop_run(Change& change, RunId id, AttemptState end_as, const Reason& reason) {
    Run& run = change.edit(id);
    const Attempt* live = live_attempt(change.seen(), id);
    run.reason = reason;
    if (live == nullptr) {
        const bool asked = end_as == AttemptState::stopped;
        return end_run(change, id, asked ? RunState::stopped : RunState::failed, reason);
    }
    run.state = RunState::stopping;
    change.about(id);
    change.note(run.id, notes::stopping(run, JobWords::shown), notes::stopping(run, JobWords::hidden));
    end_helpers(change, id);
    if (live->state != AttemptState::stopping) begin_stop(change, live->id, end_as, reason);
}

void on(Change& change, const HeadStarted& event) {
    Meta& meta = change.edit_meta();
    if (event.quarantine) meta.quarantine = *event.quarantine;
    for (const auto& [id, node] : change.seen().nodes)
        if (node.state != NodeState::lost && !node.awaited) change.edit(id).awaited = true;
    change.note(notes::head_started());
    change.nodes_changed();
}

void on(Change& change, const RunSubmitted& event) {
    if (const Run* before = earlier_submission(change.seen(), event)) {
        change.created(before->id);
        change.about(before->id);
        return;
    }
    if (auto error = refusal(change.seen(), event)) return change.refuse(*std::move(error));
    Run run = run_of(change, event);
    change.created(run.id);
    change.about(run.id);
    event.array.empty() ? submit_one(change, std::move(run)) : submit_array(change, event, std::move(run));
}

namespace {

// Ends the run's attempt now, even if it is already ending because of an earlier order.
void end_at_once(Change& change, RunId id) {
    const Attempt* attempt = live_attempt(change.seen(), id);
    if (attempt == nullptr || attempt->state != AttemptState::stopping) return;
    for (const NodeId& node : attempt->nodes_waiting)
        change.act(StopAttempt{.attempt = attempt->id,
                               .incarnation = attempt->incarnation,
                               .node = node,
                               .grace = {},
                               .why = attempt->cause,
                               .at_once = true});
}

}  // namespace

void on(Change& change, const RunStopAsked& event) {
    const auto entry = change.seen().runs.find(event.run);
    if (entry == change.seen().runs.end()) return change.refuse(no_such_run(change.seen(), event.run));
    const Run& run = entry->second;
    if (terminal(run.state))
        return change.refuse({ErrorCode::conflict,
                              "run " + text_of(change.seen(), run) + " is " + to_text(run.state) + " already",
                              "there is nothing to stop"});
    change.about(event.run);
    if (run.state == RunState::stopping && event.now) return end_at_once(change, event.run);
    // A repeated stop: the order is sent to its nodes again.
    if (run.state == RunState::stopping && !run.stop_by.empty()) {
        if (const Attempt* attempt = live_attempt(change.seen(), event.run))
            for (const NodeId& node : attempt->nodes_waiting) stop_on_node(change, *attempt, node, attempt->cause);
        return;
    }
    if (run.state == RunState::stopping) return;  // The run is already ending for another reason.
    change.edit(event.run).stop_by = event.by.empty() ? "someone" : event.by;
    if (!event.now && checkpoint_first(change, event)) return;
    stop_run(change, event.run, AttemptState::stopped,
             reasons::StoppedBy{.user = change.seen().runs.at(event.run).stop_by});
    if (event.now) end_at_once(change, event.run);
}

void on(Change& change, const RunRemoved& event) {
    const auto entry = change.seen().runs.find(event.run);
    if (entry == change.seen().runs.end()) return change.refuse(no_such_run(change.seen(), event.run));
    if (!terminal(entry->second.state))
        return change.refuse({ErrorCode::conflict,
                              "run " + text_of(change.seen(), entry->second) + " is " + to_text(entry->second.state),
                              "rtrain stop " + entry->second.name + " first"});
    change.note(notes::removed(entry->second));
    change.erase(event.run);
}

// A run that waits takes its new place in the queue. A live attempt keeps its nodes; the new priority decides who may
// preempt it from now on.
void on(Change& change, const RunPriorityChanged& event) {
    const auto entry = change.seen().runs.find(event.run);
    if (entry == change.seen().runs.end()) return change.refuse(no_such_run(change.seen(), event.run));
    if (terminal(entry->second.state))
        return change.refuse(
            {ErrorCode::conflict,
             "run " + text_of(change.seen(), entry->second) + " is " + to_text(entry->second.state),
             "rtrain restore " + entry->second.name + " --set priority=" + std::to_string(event.priority)});
    const std::int32_t before = entry->second.spec.priority;
    if (before == event.priority) return;
    Run& run = change.edit(event.run);
    run.spec.priority = event.priority;
    change.about(event.run);
    change.note(notes::priority_changed(run, before, event.by));
    change.look_for_room();
}

void on(Change& change, const StopMetricReached& event) {
    const Attempt* attempt = meant_attempt(change.seen(), event.attempt);
    if (attempt == nullptr || terminal(attempt->state) || attempt->state == AttemptState::stopping) return;
    const AttemptId id = attempt->id;
    const reasons::StopMetric cause{.key = event.key, .value = event.value};
    change.about(id.run);
    change.note(notes::stop_metric(name_of(change.seen(), id.run), cause));
    begin_stop(change, id, AttemptState::succeeded, cause);
}

// The run's attempt was placed in the meantime and continues.
void on(Change& change, const UserLimitReached& event) {
    const auto run = change.seen().runs.find(event.run);
    if (run == change.seen().runs.end() || run->second.state != RunState::recovering) return;
    const Reason last = run->second.reason;
    end_run(change, event.run, RunState::failed, reasons::UserLimit{.limit = event.limit, .cause = {last}});
}

// Refuses the configuration as a whole if a live run's queue would be missing: its quota would be undefined.
void on(Change& change, const QueuesConfigured& event) {
    if (event.changed_from && *event.changed_from != change.seen().queues)
        return change.refuse({ErrorCode::conflict,
                              "the queues were changed by somebody else meanwhile, and nothing of this was changed",
                              "rtrain queue list shows them now; send the change again"});
    for (const auto& [id, run] : change.seen().runs)
        if (!terminal(run.state) && !known_queue(event.queues, run.spec.queue))
            return change.refuse({ErrorCode::conflict,
                                  "run " + text_of(change.seen(), run) + " is " + to_text(run.state) + " in queue \"" +
                                      run.spec.queue + "\", which the new configuration does not have",
                                  "keep the queue until its runs have ended, or stop them first"});
    for (const auto& [first, array] : change.seen().arrays)
        if (!known_queue(event.queues, array.model.spec.queue))
            return change.refuse({ErrorCode::conflict,
                                  "the job array \"" + array.model.name + "\" is being made in queue \"" +
                                      array.model.spec.queue + "\", which the new configuration does not have",
                                  "keep the queue until its runs have ended, or stop them first"});
    if (event.queues == change.seen().queues) return;
    change.configure(event.queues);
    change.note(notes::queues_configured(event.by, listed(queue_names(event.queues))));
    change.look_for_room();
}

void on(Change& change, const TimePassed&) {
    change.edit_meta();
    for (const RunId id : change.seen().index.limits_until(change.now())) enforce_limits(change, id);
    enforce_requests(change);
    enforce_drains(change);
    continue_arrays(change);
}

}  // namespace rtrain::core

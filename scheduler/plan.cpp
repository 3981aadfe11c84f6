// Plans a submission on a copy of the records that still matter: ended runs take no resources. The copy goes through
// the same `decide` and the same `explain` as a submission, so a plan cannot differ from them.
#include "scheduler/plan.hpp"

#include <algorithm>
#include <set>

#include "scheduler/controller.hpp"
#include "scheduler/explain/parts.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain {
namespace {

// Returns the records of these runs: the keys of `known` begin with the run.
template <class Map, class Key>
void copy_of_run(const Map& known, Map& into, const Key& first, const Key& behind) {
    into.insert(known.lower_bound(first), known.lower_bound(behind));
}

Cluster copy_of_what_counts(const Cluster& all, const RunSubmitted& event) {
    std::set<RunId> named;
    for (const After& after : event.spec.after) named.insert(after.run);
    Cluster copy;
    copy.meta = all.meta;
    copy.nodes = all.nodes;
    copy.queues = all.queues;
    copy.use = all.use;
    copy.budgets = all.budgets;
    for (const auto& [id, run] : all.runs) {
        if (terminal(run.state) && !named.contains(id)) continue;
        copy_run(all, copy, run);
    }
    return copy;
}

PlacementAnswer seats_of(const Attempt& attempt) {
    PlacementAnswer answer{
        .verdict = Verdict::feasible_now, .seats = {}, .reasons = {}, .nearest_change = {}, .proved = true};
    for (const Worker& worker : attempt.workers) answer.seats.push_back(worker.seat);
    return answer;
}

std::string would_start(const Attempt& attempt) {
    const std::size_t workers = attempt.workers.size(), nodes = core::nodes_of(attempt).size();
    return "It would start now: " + std::to_string(workers) + (workers == 1 ? " worker on " : " workers on ") +
           std::to_string(nodes) + (nodes == 1 ? " node." : " nodes.");
}

}  // namespace

void copy_run(const Cluster& all, Cluster& into, const Run& run) {
    into.runs.insert_or_assign(into.runs.end(), run.id, run);
    const RunId next{run.id.value + 1};
    copy_of_run(all.attempts, into.attempts, AttemptId{.run = run.id, .number = 0}, {.run = next, .number = 0});
    copy_of_run(all.checkpoints, into.checkpoints, CheckpointKey{.run = run.id, .directory = {}},
                {.run = next, .directory = {}});
}

Plan plan(const Cluster& cluster, Time now, const RunSubmitted& event) {
    Plan out;
    Cluster copy = copy_of_what_counts(cluster, event);
    const Decision decision = decide(copy, now, event);
    if (decision.refused) out.refused = decision.refused;
    if (!decision.created) return out;
    const RunId id = *decision.created;
    const Time then = std::max(now, copy.meta.now);
    const std::string would_be = "It would be " + std::string(to_text(copy.runs.at(id).state));
    out.why = core::explain_as(copy, then, id, would_be, JobWords::shown);
    if (const Attempt* attempt = core::live_attempt(copy, id)) {
        out.why.headline = would_start(*attempt);
        out.answer = seats_of(*attempt);
        return out;
    }
    out.answer = out.why.placement.value_or(PlacementAnswer{});
    if (out.answer.verdict == Verdict::infeasible) return out;
    out.answer.verdict = Verdict::pending;  // The run would fit, but other waiting runs come first.
    out.answer.seats.clear();
    return out;
}

}  // namespace rtrain

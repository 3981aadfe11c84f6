// Explains why a run waits: the headline, the place in the queue, the nodes' reasons, and the holders of resources.
#include <algorithm>

#include "scheduler/explain/parts.hpp"
#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/placement/room.hpp"
#include "scheduler/queue/backfill.hpp"
#include "scheduler/queue/order.hpp"

namespace rtrain {
namespace {

// Returns "8 GPU 16 CPU", GPUs first. Amounts that are unreadable in decimals (bytes) are left out.
std::string text_of(const Resources& resources) {
    std::string text;
    const Amount gpus = amount_of(resources, gpu_key);
    if (gpus.ticks > 0) text = to_text(gpus) + " GPU";
    for (const auto& [name, amount] : resources)
        if (name != gpu_key && name != memory_key && amount.ticks > 0 && !name.starts_with("accelerator_type:"))
            text += (text.empty() ? "" : " ") + to_text(amount) + " " + name;
    return text.empty() ? "nothing" : text;
}

// Returns "Needs 2 to 8 workers x 8 GPU, all at once." `least`: "2 to " for an elastic run, else empty.
std::string needs(const GangRequest& gang, const std::string& least) {
    const std::string each = text_of(gang.bundles.front().demand);
    const bool alike = std::all_of(gang.bundles.begin(), gang.bundles.end(),
                                   [&](const Bundle& bundle) { return bundle == gang.bundles.front(); });
    const std::string count = least + std::to_string(gang.bundles.size());
    if (gang.bundles.size() == 1) return "Needs 1 worker with " + each + ".";
    return alike ? "Needs " + count + " workers x " + each + ", all at once."
                 : "Needs " + count + " unlike workers, all at once.";
}

Time in_state_since(const Cluster& cluster, const Run& run) {
    if (terminal(run.state)) return run.ended;
    const auto last = cluster.attempts.find({.run = run.id, .number = run.attempts});
    if (last == cluster.attempts.end()) return run.submitted;
    switch (last->second.state) {
        case AttemptState::placed:
        case AttemptState::starting:
            return last->second.placed_at;
        case AttemptState::running:
        case AttemptState::stopping:
            return last->second.started_at.ms == 0 ? last->second.placed_at : last->second.started_at;
        case AttemptState::succeeded:
        case AttemptState::failed:
        case AttemptState::stopped:
        case AttemptState::lost:
            return last->second.ended_at;
    }
    return run.submitted;
}

std::optional<QueuePosition> position_of(const Cluster& cluster, const Run& run) {
    QueuePosition at;
    for (const RunId id : queue_order(cluster)) {
        if (cluster.runs.at(id).spec.queue != run.spec.queue) continue;
        ++at.length;
        if (id == run.id) at.position = at.length;
    }
    return at.position == 0 ? std::nullopt : std::optional(at);
}

// Returns ", ETA 2h11"; empty if the end is unknown.
std::string known_eta(const Cluster& cluster, AttemptId id, Time now) {
    const Attempt& attempt = cluster.attempts.at(id);
    const bool known = attempt.state == AttemptState::stopping || core::expected_end(cluster, attempt, now);
    return known ? ", " + core::eta_text(cluster, attempt, now) : "";
}

std::vector<std::string> holders_of(const Cluster& cluster, Time now) {
    std::vector<std::string> lines;
    std::map<NodeId, std::map<AttemptId, Resources>> allocated;
    for (const auto& [id, attempt] : cluster.attempts) {
        if (terminal(attempt.state)) continue;
        const auto& bundles = cluster.runs.at(id.run).spec.gang.bundles;
        for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank)
            add(allocated[attempt.workers[rank].seat.node][id], bundles[rank].demand);
    }
    for (const auto& [node, attempts] : allocated)
        for (const auto& [id, resources] : attempts)
            lines.push_back(node.value + ": " + text_of(resources) + " by " + core::name_of(cluster, id.run) +
                            " (attempt " + std::to_string(id.number) + ")" + known_eta(cluster, id, now));
    return lines;
}

std::string attempt_text(const Cluster& cluster, const Run& run, JobWords words) {
    const Attempt* attempt = core::live_attempt(cluster, run.id);
    if (attempt == nullptr) return "";
    std::string text = " Attempt " + std::to_string(attempt->id.number) + " is " + to_text(attempt->state);
    if (core::request_pending(*attempt))
        text += ", asked for a checkpoint (" + std::string(to_text(attempt->request->reason)) + ": " +
                to_text(attempt->request->why, words) + ")";
    if (attempt->nodes_waiting.empty()) return text + ".";
    text +=
        attempt->state == AttemptState::placed ? ", these nodes still prepare:" : ", these nodes are not empty yet:";
    for (const NodeId& node : attempt->nodes_waiting) text += " " + node.value;
    return text + ".";
}

// Returns the verdict of each node for the run, and the nearest change. The nearest change does not use amounts that
// reservations and quotas withhold from the run.
PlacementAnswer placement_of(const Cluster& cluster, const Run& run, const GangRequest& request, Time now) {
    Cluster copy;
    const Cluster& all = core::with_index(cluster, copy);
    PlacementAnswer answer = place(all.index.nodes(), request);
    answer.reasons = placement_reasons(all.index.nodes(), request, all.index.nodes().size());
    if (answer.verdict == Verdict::invalid) return answer;
    const core::Quotas quotas = core::quotas_for(all, run);
    const core::Borrower who = core::borrower(run, now);
    const bool refused = quotas.refuses(run.spec.queue, demand_of(run), who).has_value();
    if (answer.verdict == Verdict::feasible_now && !refused) return answer;
    const std::vector<NodeView> nodes = all.index.nodes(~core::closed_to(all, run, now));
    answer.nearest_change =
        placing::nearest_change(nodes, request, answer.verdict, core::quota_room(quotas, run.spec.queue, who));
    return answer;
}

}  // namespace

Explanation explain(const Cluster& cluster, Time now, RunId id, JobWords words) {
    const auto entry = cluster.runs.find(id);
    if (entry == cluster.runs.end()) {
        Explanation none;
        none.headline = "no run " + run_id_text(cluster.meta.cluster_id, id);
        return none;
    }
    const Run& run = entry->second;
    return core::explain_as(
        cluster, now, id, std::string(to_text(run.state)) + " " + core::ago(now - in_state_since(cluster, run)), words);
}

Explanation core::explain_as(const Cluster& cluster, Time now, RunId id, const std::string& opening, JobWords words) {
    Explanation answer;
    const Run& run = cluster.runs.at(id);
    answer.headline = opening;
    answer.queue = position_of(cluster, run);
    if (!answer.queue) {
        const std::string reason = to_text(run.reason, words);
        answer.headline += "." + attempt_text(cluster, run, words) + (reason.empty() ? "" : " " + reason + ".");
        if (yields(run) && !terminal(run.state) && run.state != RunState::stopping)
            answer.headline += " It yields: it ends for any waiting run that would start by that.";
        return answer;
    }
    answer.headline +=
        ", position " + std::to_string(answer.queue->position) + " of " + std::to_string(answer.queue->length) +
        " in queue \"" + run.spec.queue + "\". " +
        needs(gang_of(run, workers_max(run)), run.spec.elastic ? std::to_string(workers_min(run)) + " to " : "");
    if (run.state == RunState::recovering && run.retry_at > now)
        answer.headline += " The next attempt waits " + std::to_string((run.retry_at - now).ms) + " ms more, because " +
                           to_text(run.reason, words) + ".";
    else if (run.retry_at > now)
        answer.headline += " It stands aside for " + std::to_string(((run.retry_at - now).ms + 999) / 1000) +
                           " s more: whom it gave way to comes first.";
    if (const Reason block = core::blocked_by(cluster, run); !block.none()) {
        answer.headline += " It " + to_text(block) + ".";
        return answer;
    }
    GangRequest request = gang_of(run, workers_min(run));
    request.nodes_avoided.insert(request.nodes_avoided.end(), run.nodes_avoided.begin(), run.nodes_avoided.end());
    answer.placement = placement_of(cluster, run, request, now);
    answer.holders = holders_of(cluster, now);
    answer.rules = core::queue_rules(cluster, run, now, words);
    core::group_reasons(cluster, run, now, answer);
    const bool reserved = std::any_of(answer.groups.begin(), answer.groups.end(),
                                      [](const ReasonGroup& group) { return group.obstacle == Obstacle::reserved; });
    if (reserved && answer.placement->verdict == Verdict::feasible_now && !core::kept_out_by_quota(cluster, run))
        answer.headline += " It waits behind a run that needs the same nodes.";
    return answer;
}

}  // namespace rtrain

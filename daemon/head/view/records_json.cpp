// See records_json.hpp.
#include "daemon/head/view/records_json.hpp"

#include <algorithm>
#include <set>

#include "base/json_text.hpp"
#include "daemon/head/view/goodput_json.hpp"
#include "daemon/head/view/metric_json.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain::head {
namespace {

json needs_of(const Run& run) { return needs_text(run.spec); }

std::string path_of(const Run& run) {
    const std::string base = run.storage_path.empty() ? "cluster://" : run.storage_path;
    return base + (base.ends_with('/') ? "" : "/") + run.name;
}

json nodes_of(const View& view, const Run& run) {
    json out = json::array();
    const auto attempts = attempts_of(view.cluster, run.id);
    if (attempts.empty() || terminal(attempts.back()->state)) return out;
    std::set<std::string> seen;
    for (const Worker& worker : attempts.back()->workers)
        if (seen.insert(worker.seat.node.value).second) out.push_back(worker.seat.node.value);
    return out;
}

// Returns the number of workers of the run's attempt. Without an attempt, returns the least number that it would have.
std::size_t workers_of(const std::vector<const Attempt*>& attempts, const Run& run) {
    const bool waits = attempts.empty() || (terminal(attempts.back()->state) && !terminal(run.state));
    return waits ? workers_min(run) : attempts.back()->workers.size();
}

json asked_of(const View& view, const std::vector<const Attempt*>& attempts, JobWords words) {
    if (attempts.empty() || attempts.back()->state != AttemptState::running || !attempts.back()->request)
        return nullptr;
    const CheckpointRequest& request = *attempts.back()->request;
    return {{"reason", to_text(request.reason)},
            {"why", to_text(request.why, words)},
            {"asked", time_json(view, request.asked)},
            {"deadline", request.deadline ? time_json(view, *request.deadline) : json()},
            {"workers", request.workers == 0 ? json() : json(request.workers)}};
}

json after_of(const View& view, const Run& run) {
    json out = json::array();
    for (const After& predecessor : run.after)
        out.push_back({{"run_id", view.run_id(predecessor.run)}, {"until", to_text(predecessor.what)}});
    return out;
}

json last_report(const View& view, RunId run) {
    const auto row = view.reports.last(run);
    return row ? metric_json(*row) : json();
}

json first_failure(const Attempt& attempt) {
    if (!attempt.first_failure || attempt.first_failure->value >= attempt.workers.size()) return nullptr;
    const Worker& worker = attempt.workers[attempt.first_failure->value];
    return {{"rank", attempt.first_failure->value},
            {"node", worker.seat.node.value},
            {"lead_us", attempt.first_failure_lead_us},
            {"cause", worker.exit ? to_text(*worker.exit) : to_text(attempt.cause)}};
}

}  // namespace

json kind_json(const Reason& reason) { return reason.none() ? json() : json(kind_of(reason)); }

json time_json(const View& view, Time time) { return time.ms == 0 ? json() : json(iso_time(view.clock.to_wall(time))); }
json wall_json(std::int64_t wall) { return wall == 0 ? json() : json(iso_time(wall)); }

json resources_json(const Resources& resources) {
    json out = json::object();
    for (const auto& [name, amount] : resources) out[name] = to_text(amount);
    return out;
}

std::string needs_text(const RunSpec& spec) {
    const auto& bundles = spec.gang.bundles;
    if (bundles.empty()) return "nothing";
    std::string inner;
    for (const auto& [name, amount] : bundles.front().demand)
        inner += (inner.empty() ? "" : ", ") + name + ": " + to_text(amount);
    const std::string least = spec.elastic ? std::to_string(spec.elastic->workers_min) + ".." : "";
    return least + std::to_string(bundles.size()) + " x {" + inner + "}";
}

namespace {

std::string lost_text(std::uint32_t lost) {
    if (lost == 0) return "";
    return std::to_string(lost) + (lost == 1 ? " checkpoint" : " checkpoints") + " never reached the storage";
}

std::vector<std::string> warnings_of(const Cluster& cluster, const Run& run, const Attempt* newest) {
    std::vector<std::string> out = run.warnings;
    if (newest && newest->checkpoints_lost > 0)
        out.push_back(lost_text(newest->checkpoints_lost) + "; the newest of them: " + newest->last_checkpoint_lost);
    const std::string& score = run.spec.retention.score_attribute;
    const auto kept = checkpoints_of(cluster, run.id);
    const bool scored = std::any_of(kept.begin(), kept.end(),
                                    [&](const auto* checkpoint) { return checkpoint->metrics.contains(score); });
    if (!score.empty() && !scored && kept.size() > run.spec.retention.num_to_keep.value_or(~0u))
        out.push_back("no checkpoint has the metric " + score +
                      " (checkpoint.score_attribute): none is deleted until a report with a checkpoint has it");
    return out;
}

}  // namespace

json run_json(const View& view, const Run& run, JobWords words) {
    const Reason reason = words == JobWords::shown ? run.reason : without_job_words(run.reason);
    const auto checkpoints = checkpoints_of(view.cluster, run.id);
    const auto attempts = attempts_of(view.cluster, run.id);
    const Attempt* newest = attempts.empty() ? nullptr : attempts.back();
    const std::uint32_t lost = newest ? newest->checkpoints_lost : 0;
    const std::string lost_at_end = terminal(run.state) && lost > 0 ? "; " + lost_text(lost) : "";
    json latest, labels = json::object(), stop = json::object();
    for (const Checkpoint* checkpoint : checkpoints)
        if (!checkpoint->deleting) latest = checkpoint->directory;
    if (const json job = parsed_or_null(run.job_json); job.is_object()) {
        if (job.contains("labels")) labels = job["labels"];
        if (job.contains("stop")) stop = job["stop"];
    }
    return {{"run_id", view.run_id(run.id)},
            {"name", run.name},
            {"user", run.user},
            {"state", to_text(run.state)},
            {"reason", to_text(reason) + lost_at_end},
            {"reason_brief", to_text(in_brief(reason)) + lost_at_end},
            {"reason_kind", kind_json(run.reason)},
            {"submitted", wall_json(run.submitted_wall_ms)},
            {"started", time_json(view, run.started)},
            {"ended", wall_json(run.ended_wall_ms)},
            {"attempt", attempts.empty() ? 0 : attempts.back()->id.number},
            {"attempts", attempts.size()},
            {"failures", run.failures},
            {"max_failures", run.spec.failure.max_failures},
            {"workers", workers_of(attempts, run)},
            {"workers_min", workers_min(run)},
            {"workers_max", workers_max(run)},
            {"needs", needs_of(run)},
            {"queue", run.spec.queue},
            {"priority", run.spec.priority},
            {"yields", may_yield(run) ? json(yields(run)) : json()},
            {"storage_path", run.storage_path.empty() ? "cluster://" : run.storage_path},
            {"run_path", path_of(run)},
            {"nodes", nodes_of(view, run)},
            {"last_report", last_report(view, run.id)},
            {"checkpoints", checkpoints.size()},
            {"checkpoints_lost", lost},
            {"latest_checkpoint", std::move(latest)},
            {"restored_from", run.restore_from.empty() ? json() : json(run.restore_from)},
            {"warnings", warnings_of(view.cluster, run, newest)},
            {"checkpoint_asked", asked_of(view, attempts, words)},
            {"after", after_of(view, run)},
            {"array", run.array.empty() ? json() : json(run.array)},
            {"array_index", run.array.empty() ? json() : json(run.array_index)},
            {"stop", std::move(stop)},
            {"labels", std::move(labels)}};
}

json full_run_json(const View& view, const Run& run, JobWords words) {
    json out = run_json(view, run, words);
    out["job"] = parsed_or_null(run.job_json);
    out["goodput"] = goodput_json(view, run);
    out["advice"] = advice_json(view, run);
    out["report_wait"] = report_wait_json(view, run);
    return out;
}

json worker_json(const Attempt& attempt, std::uint32_t rank) {
    const Worker& worker = attempt.workers[rank];
    json gpus = json::array();
    for (const GpuShare& share : worker.seat.gpus) gpus.push_back(share.device);
    json out = {{"rank", rank},
                {"node", worker.seat.node.value},
                {"local_rank", worker.local_rank},
                {"node_rank", worker.node_rank},
                {"state", to_text(worker.state)},
                {"pid", worker.pid},
                {"gpus", std::move(gpus)},
                {"exit_code", nullptr},
                {"signal", nullptr},
                {"out_of_memory", false},
                {"cause", ""},
                {"stopped_with_attempt", false}};
    if (!worker.exit) return out;
    if (worker.exit->exit_code) out["exit_code"] = *worker.exit->exit_code;
    if (worker.exit->signal) out["signal"] = *worker.exit->signal;
    out["out_of_memory"] = worker.exit->out_of_memory;
    out["cause"] = to_text(*worker.exit);
    out["stopped_with_attempt"] = worker.exit->stopped_by_us;
    return out;
}

json attempt_json(const View& view, const Attempt& attempt) {
    json nodes = json::array();
    std::set<std::string> seen;
    for (const Worker& worker : attempt.workers)
        if (seen.insert(worker.seat.node.value).second) nodes.push_back(worker.seat.node.value);
    const Time until = attempt.ended_at.ms == 0 ? view.clock.now() : attempt.ended_at;
    return {{"number", attempt.id.number},
            {"state", to_text(attempt.state)},
            {"placed", time_json(view, attempt.placed_at)},
            {"started", time_json(view, attempt.started_at)},
            {"ended", time_json(view, attempt.ended_at)},
            {"lasted_ms", (until - attempt.placed_at).ms},
            {"from", attempt.from.empty() ? json() : json(attempt.from)},
            {"cause", to_text(attempt.cause)},
            {"cause_brief", to_text(in_brief(attempt.cause))},
            {"cause_kind", kind_json(attempt.cause)},
            {"world_size", attempt.workers.size()},
            {"nodes", std::move(nodes)},
            {"first_failure", first_failure(attempt)}};
}

json checkpoint_json(const Run& run, const Checkpoint& checkpoint) {
    return {{"directory", checkpoint.directory},
            {"attempt", checkpoint.attempt},
            {"sequence", checkpoint.sequence},
            {"world_size", checkpoint.world_size},
            {"bytes", checkpoint.bytes},
            {"metrics", checkpoint.metrics},
            {"committed", wall_json(checkpoint.committed_wall_ms)},
            {"path", path_of(run) + "/" + checkpoint.directory},
            {"deleting", checkpoint.deleting},
            {"verified", wall_json(checkpoint.verified_wall_ms)},
            {"faults", checkpoint.verified_wall_ms == 0 ? json() : json(checkpoint.faults)},
            {"latest", false}};
}

std::string result_json(const View& view, const Run& run) {
    json out = run_json(view, run, JobWords::shown);
    out["schema_version"] = 1;
    json attempts = json::array();
    for (const Attempt* attempt : attempts_of(view.cluster, run.id)) {
        json& workers = attempts.emplace_back(attempt_json(view, *attempt))["workers"] = json::array();
        for (std::uint32_t rank = 0; rank < attempt->workers.size(); ++rank)
            workers.push_back(worker_json(*attempt, rank));
    }
    out["attempt_list"] = std::move(attempts);
    return json_text(out);
}

json event_json(const View& view, const state::EventRow& row) {
    json out = {{"id", row.id.value},  {"time", wall_json(row.wall_ms)},
                {"kind", row.kind},    {"run_id", nullptr},
                {"run_name", nullptr}, {"node", nullptr},
                {"text", row.note}};
    if (row.about_run) {
        out["run_id"] = view.run_id(*row.about_run);
        const auto run = view.cluster.runs.find(*row.about_run);
        if (run != view.cluster.runs.end()) out["run_name"] = run->second.name;
    }
    if (row.about_node) out["node"] = row.about_node->value;
    return out;
}

}  // namespace rtrain::head

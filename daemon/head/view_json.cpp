// See view_json.hpp. Lists and bodies are in pages.cpp.
#include "daemon/head/view_json.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>
#include <tuple>

#include "scheduler/model/derived.hpp"
#include "scheduler/placement/largest.hpp"

namespace rtrain::head {
namespace {

json needs_of(const Run& run) { return needs_text(run.spec); }

std::string path_of(const Run& run) {
    const std::string base = run.storage_path.empty() ? "cluster://" : run.storage_path;
    return base + (base.ends_with('/') ? "" : "/") + run.name;
}

json nodes_of(const Head& head, const Run& run) {
    json out = json::array();
    const auto attempts = attempts_of(head.cluster, run.id);
    if (attempts.empty() || terminal(attempts.back()->state)) return out;
    std::set<std::string> seen;
    for (const Worker& worker : attempts.back()->workers)
        if (seen.insert(worker.seat.node.value).second) out.push_back(worker.seat.node.value);
    return out;
}

// Those it has, else those it would have at least.
std::size_t workers_of(const std::vector<const Attempt*>& attempts, const Run& run) {
    const bool waits = attempts.empty() || (terminal(attempts.back()->state) && !terminal(run.state));
    return waits ? workers_min(run) : attempts.back()->workers.size();
}

json asked_of(const Head& head, const std::vector<const Attempt*>& attempts) {
    if (attempts.empty() || attempts.back()->state != AttemptState::running || !attempts.back()->ask) return nullptr;
    const CheckpointAsk& ask = *attempts.back()->ask;
    return {{"reason", to_text(ask.reason)},
            {"why", ask.why},
            {"asked", time_json(head, ask.asked)},
            {"deadline", ask.deadline ? time_json(head, *ask.deadline) : json()},
            {"workers", ask.workers == 0 ? json() : json(ask.workers)}};
}

json after_of(const Head& head, const Run& run) {
    json out = json::array();
    for (const After& one : run.after) out.push_back({{"run_id", head.run_id(one.run)}, {"until", to_text(one.what)}});
    return out;
}

json last_report(const Head& head, RunId run) {
    const auto row = head.reports.last(run);
    return row ? metric_json(*row) : json();
}

json first_failure(const Attempt& attempt) {
    if (!attempt.first_failure || attempt.first_failure->value >= attempt.workers.size()) return nullptr;
    const Worker& worker = attempt.workers[attempt.first_failure->value];
    return {{"rank", attempt.first_failure->value},
            {"node", worker.seat.node.value},
            {"lead_us", attempt.first_failure_lead_us},
            {"cause", worker.exit ? cause_text(*worker.exit) : attempt.cause}};
}

}  // namespace

json time_json(const Head& head, Time time) { return time.ms == 0 ? json() : json(iso_time(head.clock.to_wall(time))); }
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

std::string cause_text(const ExitCause& cause) {
    std::string out;
    if (cause.never_started)
        out = "could not be started";
    else if (cause.signal)
        out = "killed by signal " + std::to_string(*cause.signal);
    else if (cause.exit_code)
        out = "exit code " + std::to_string(*cause.exit_code);
    if (cause.out_of_memory) out += " (out of memory)";
    if (cause.stopped_by_us) out += ", stopped with its attempt";
    if (!cause.detail.empty()) out += (out.empty() ? "" : ": ") + cause.detail;
    return out;
}

std::vector<const Attempt*> attempts_of(const Cluster& cluster, RunId run) {
    std::vector<const Attempt*> out;
    for (auto at = cluster.attempts.lower_bound({run, 0}); at != cluster.attempts.end() && at->first.run == run; ++at)
        out.push_back(&at->second);
    return out;
}

std::vector<const Checkpoint*> checkpoints_of(const Cluster& cluster, RunId run) {
    std::vector<const Checkpoint*> out;
    for (auto at = cluster.checkpoints.lower_bound({run, ""}); at != cluster.checkpoints.end() && at->first.run == run;
         ++at)
        out.push_back(&at->second);
    std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) {
        return std::tie(a->attempt, a->sequence) <
               std::tie(b->attempt, b->sequence);  // late news may come out of order
    });
    return out;
}

std::vector<std::string> warnings_of(const Cluster& cluster, const Run& run) {
    std::vector<std::string> out = run.warnings;
    const std::string& score = run.spec.retention.score_attribute;
    const auto kept = checkpoints_of(cluster, run.id);
    const bool scored =
        std::any_of(kept.begin(), kept.end(), [&](const auto* one) { return one->metrics.contains(score); });
    if (!score.empty() && !scored && kept.size() > run.spec.retention.num_to_keep.value_or(~0u))
        out.push_back("no checkpoint has the metric " + score +
                      " (checkpoint.score_attribute): none is deleted until a report with a checkpoint has it");
    return out;
}

json run_json(const Head& head, const Run& run) {
    const auto checkpoints = checkpoints_of(head.cluster, run.id);
    const auto attempts = attempts_of(head.cluster, run.id);
    json latest, labels = json::object();
    for (const Checkpoint* one : checkpoints)
        if (!one->deleting) latest = one->directory;
    if (const json job = parsed_or_null(run.job_json); job.is_object() && job.contains("labels"))
        labels = job["labels"];
    return {{"run_id", head.run_id(run.id)},
            {"name", run.name},
            {"user", run.user},
            {"state", to_text(run.state)},
            {"reason", run.reason},
            {"submitted", wall_json(run.submitted_wall_ms)},
            {"started", time_json(head, run.started)},
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
            {"storage_path", run.storage_path.empty() ? "cluster://" : run.storage_path},
            {"run_path", path_of(run)},
            {"nodes", nodes_of(head, run)},
            {"last_report", last_report(head, run.id)},
            {"checkpoints", checkpoints.size()},
            {"latest_checkpoint", std::move(latest)},
            {"restored_from", run.restore_from.empty() ? json() : json(run.restore_from)},
            {"warnings", warnings_of(head.cluster, run)},
            {"checkpoint_asked", asked_of(head, attempts)},
            {"after", after_of(head, run)},
            {"array", run.array.empty() ? json() : json(run.array)},
            {"array_index", run.array.empty() ? json() : json(run.array_index)},
            {"labels", std::move(labels)}};
}

json full_run_json(const Head& head, const Run& run) {
    json out = run_json(head, run);
    out["job"] = parsed_or_null(run.job_json);
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
                {"cause", ""}};
    if (!worker.exit) return out;
    if (worker.exit->exit_code) out["exit_code"] = *worker.exit->exit_code;
    if (worker.exit->signal) out["signal"] = *worker.exit->signal;
    out["out_of_memory"] = worker.exit->out_of_memory;
    out["cause"] = cause_text(*worker.exit);
    return out;
}

json attempt_json(const Head& head, const Attempt& attempt) {
    json nodes = json::array();
    std::set<std::string> seen;
    for (const Worker& worker : attempt.workers)
        if (seen.insert(worker.seat.node.value).second) nodes.push_back(worker.seat.node.value);
    const Time until = attempt.ended_at.ms == 0 ? head.clock.now() : attempt.ended_at;
    return {{"number", attempt.id.number},
            {"state", to_text(attempt.state)},
            {"placed", time_json(head, attempt.placed_at)},
            {"started", time_json(head, attempt.started_at)},
            {"ended", time_json(head, attempt.ended_at)},
            {"lasted_ms", (until - attempt.placed_at).ms},
            {"from", attempt.from.empty() ? json() : json(attempt.from)},
            {"cause", attempt.cause},
            {"world_size", attempt.workers.size()},
            {"nodes", std::move(nodes)},
            {"first_failure", first_failure(attempt)}};
}

json checkpoint_json(const Head& head, const Run& run, const Checkpoint& checkpoint) {
    (void)head;
    return {{"directory", checkpoint.directory},
            {"attempt", checkpoint.attempt},
            {"sequence", checkpoint.sequence},
            {"world_size", checkpoint.world_size},
            {"bytes", checkpoint.bytes},
            {"metrics", checkpoint.metrics},
            {"committed", wall_json(checkpoint.committed_wall_ms)},
            {"path", path_of(run) + "/" + checkpoint.directory},
            {"deleting", checkpoint.deleting},
            {"latest", false}};
}

json node_json(const Head& head, const Node& node, const Ledger& ledger) {
    const NodeSeen unknown;
    const NodeSeen* seen = head.agents.seen(node.id.value);
    const NodeSeen& known = seen ? *seen : unknown;
    std::set<std::string> runs;
    for (const AttemptId& id : ledger.on_node(node.id)) runs.insert(head.cluster.runs.at(id.run).name);
    const NodeView* view = ledger.node(node.id);
    RTRAIN_CHECK(view != nullptr, "node " + node.id.value + " is not in the ledger");
    const std::string at_its_address = head.agents.addresses().warning(node.id.value);
    Amount gpus_free;
    for (const Amount one : view->gpus_free) gpus_free = gpus_free + one;
    return {{"node", node.id.value},
            {"state", to_text(node.state)},
            {"connected", known.connected},
            {"address", node.address},
            {"port", node.port},
            {"resources", resources_json(node.total)},
            {"free", resources_json(view->free)},
            {"gpus", node.gpus},
            {"gpus_free", to_text(gpus_free)},
            {"gpu_model", known.gpu_model},
            {"labels", node.labels},
            {"registered", time_json(head, node.registered)},
            {"last_heartbeat_ms", known.heard_ms == 0 ? json() : json(monotonic_ms() - known.heard_ms)},
            {"reason", node.state_reason},
            {"warnings", at_its_address.empty() ? json::array() : json::array({at_its_address})},
            {"drain_deadline", node.drain_deadline ? time_json(head, *node.drain_deadline) : json()},
            {"failures", node.failures.size()},
            {"memory_used", known.pulse.memory_used},
            {"memory_total", known.pulse.memory_total},
            {"version", known.program_version},
            {"runs", runs},
            {"facts", known.facts}};
}

json event_json(const Head& head, const state::EventRow& row) {
    json out = {{"id", row.id.value},  {"time", wall_json(row.wall_ms)},
                {"kind", row.kind},    {"run_id", nullptr},
                {"run_name", nullptr}, {"node", nullptr},
                {"text", row.note}};
    if (row.about_run) {
        out["run_id"] = head.run_id(*row.about_run);
        const auto run = head.cluster.runs.find(*row.about_run);
        if (run != head.cluster.runs.end()) out["run_name"] = run->second.name;
    }
    if (row.about_node) out["node"] = row.about_node->value;
    return out;
}

namespace {

constexpr const char* of_checkpoint = "checkpoint";  // beside the ranks of a row

json of_rank(const json& ranks, std::uint32_t rank) {
    const std::string name = std::to_string(rank);
    return ranks.is_object() && ranks.contains(name) && ranks[name].is_object() ? ranks[name] : json::object();
}

json chosen(const json& metrics, const std::string& key) {
    if (!metrics.is_object()) return json::object();
    if (key.empty()) return metrics;
    json out = json::object();
    if (metrics.contains(key)) out[key] = metrics[key];
    return out;
}

bool wanted(const RankChoice& choice, const std::string& rank) {
    return choice.all || choice.ranks.contains(static_cast<std::uint32_t>(std::strtoul(rank.c_str(), nullptr, 10)));
}

}  // namespace

json metrics_of(const state::MetricRow& row, std::uint32_t rank) {
    return of_rank(parsed_or_null(row.ranks_json), rank);
}

json metric_json(const state::MetricRow& row, const RankChoice& choice, const std::string& key) {
    json out = {{"attempt", row.attempt.number},
                {"index", row.index},
                {"time", wall_json(row.wall_ms)},
                {"position", row.position == 0 ? json() : json(row.position)}};
    const json ranks = parsed_or_null(row.ranks_json);
    const bool known = ranks.is_object();
    if (known && ranks.contains(of_checkpoint)) out["checkpoint"] = ranks[of_checkpoint];
    const auto only = choice.ranks.empty() ? std::optional<std::uint32_t>(0) : choice.ranks.only();
    if (!choice.all && only) {
        out["metrics"] = chosen(of_rank(ranks, *only), key);
        return out;
    }
    json& by_rank = out["metrics_by_rank"] = json::object();
    if (!known) return out;
    for (const auto& [rank, metrics] : ranks.items())
        if (rank != of_checkpoint && wanted(choice, rank)) by_rank[rank] = chosen(metrics, key);
    return out;
}

json token_json(const state::TokenRow& row) {
    return {{"id", row.id},
            {"role", row.role},
            {"user", row.user},
            {"created", wall_json(row.created_wall_ms)},
            {"expires", wall_json(row.expires_wall_ms)},
            {"uses_left", row.uses_left < 0 ? json() : json(row.uses_left)},
            {"revoked", row.revoked}};
}

json answer_json(const PlacementAnswer& answer) {
    json placement = json::object(), reasons = json::array();
    for (std::size_t rank = 0; rank < answer.seats.size(); ++rank) {
        json gpu = json::object();
        for (const GpuShare& share : answer.seats[rank].gpus) gpu[std::to_string(share.device)] = to_text(share.amount);
        placement[std::to_string(rank)] = {{"node", answer.seats[rank].node.value}, {"gpu", std::move(gpu)}};
    }
    for (const NodeReason& reason : answer.reasons)
        reasons.push_back({{"node", reason.node.value}, {"text", reason.text}});
    return {{"verdict", to_text(answer.verdict)},
            {"placement", std::move(placement)},
            {"reasons", std::move(reasons)},
            {"nearest_change", answer.nearest_change},
            {"proved", answer.proved}};
}

}  // namespace rtrain::head

// Looks records of a cluster up.
#include <algorithm>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain {

std::string array_member(const std::string& array, std::uint32_t index) { return array + "-" + std::to_string(index); }

namespace {

bool is_unmade(const PendingArray& array, const std::string& name) {
    constexpr std::size_t digits_most = 9;
    const std::size_t base = array.model.name.size() + 1;
    if (!name.starts_with(array.model.name) || name.size() <= base || name.size() > base + digits_most) return false;
    const std::string digits = name.substr(base);
    if (digits.find_first_not_of("0123456789") != std::string::npos) return false;
    const auto index = static_cast<std::uint32_t>(std::stoul(digits));
    return name == array_member(array.model.name, index) &&
           std::binary_search(array.indices.begin() + array.runs_made, array.indices.end(), index);
}

}  // namespace

bool is_promised(const Cluster& cluster, const std::string& name) {
    return std::any_of(cluster.arrays.begin(), cluster.arrays.end(),
                       [&](const auto& entry) { return is_unmade(entry.second, name); });
}

NodeId deletes_for(const Cluster& cluster, const Run& run) {
    const auto ready = [&](const NodeId& id) {
        const auto node = cluster.nodes.find(id);
        return node != cluster.nodes.end() && state_for_placement(node->second) == NodeState::ready;
    };
    const auto last = cluster.attempts.find({.run = run.id, .number = run.attempts});
    if (last != cluster.attempts.end())
        for (const NodeId& id : core::nodes_of(last->second))
            if (ready(id)) return id;
    for (const auto& [id, node] : cluster.nodes)
        if (ready(id)) return id;
    return {};
}

const Checkpoint* latest_checkpoint(const Cluster& cluster, RunId run) {
    const Checkpoint* latest = nullptr;
    for (const Checkpoint* checkpoint : core::retained_checkpoints(cluster, run))
        if (latest == nullptr || core::newer(*checkpoint, *latest)) latest = checkpoint;
    return latest;
}

namespace core {

const Attempt* live_attempt(const Cluster& cluster, RunId id) {
    const auto run = cluster.runs.find(id);
    if (run == cluster.runs.end() || terminal(run->second.state) || run->second.attempts == 0) return nullptr;
    const auto entry = cluster.attempts.find({.run = id, .number = run->second.attempts});
    return entry == cluster.attempts.end() || terminal(entry->second.state) ? nullptr : &entry->second;
}

const Attempt* meant_attempt(const Cluster& cluster, AttemptId asked) {
    const auto entry = cluster.attempts.lower_bound(asked);
    return entry == cluster.attempts.end() || entry->first.run != asked.run ? nullptr : &entry->second;
}

bool waits_for_others(const Cluster& cluster, const Run& run) {
    const auto last = cluster.attempts.find({.run = run.id, .number = run.attempts});
    return last != cluster.attempts.end() && last->second.state == AttemptState::stopped;
}

std::optional<Duration> time_left(const Cluster& cluster, const Run& run, Time now) {
    const auto end = wall_time_end(run);
    if (!end) return run.spec.wall_time_limit;
    const bool pauses = waits_for_others(cluster, run);
    const Time since = pauses ? cluster.attempts.at({.run = run.id, .number = run.attempts}).ended_at : now;
    return std::max(*end - since, Duration{});
}

std::vector<AttemptId> live_on(const Cluster& cluster, const NodeId& node) {
    ClusterIndex scratch;
    const auto& live = in_step(cluster, scratch).on_node(node);
    std::vector<AttemptId> ids;
    for (const AttemptId id : live) {  // The attempts in the index are those of the last settle().
        const auto entry = cluster.attempts.find(id);
        if (entry != cluster.attempts.end() && !terminal(entry->second.state)) ids.push_back(id);
    }
    return ids;
}

std::string name_of(const Cluster& cluster, RunId run) {
    const auto entry = cluster.runs.find(run);
    return entry == cluster.runs.end() ? run_id_text(cluster.meta.cluster_id, run) : entry->second.name;
}

std::optional<Time> limit_of(const Cluster& cluster, const Run& run) {
    if (terminal(run.state) || run.state == RunState::stopping || is_blocked(run)) return std::nullopt;
    if (run.started.ms != 0) return waits_for_others(cluster, run) ? std::nullopt : wall_time_end(run);
    const bool never_placed = run.state == RunState::queued && run.attempts == 0;
    if (!never_placed || !run.spec.queue_time_limit) return std::nullopt;
    return (run.let_go.ms == 0 ? run.submitted : run.let_go) + *run.spec.queue_time_limit;
}

Sums allocated_to(const Cluster& cluster, const Attempt& attempt) {
    Sums allocated;
    for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank)
        add(allocated, demand_of(cluster.runs.at(attempt.id.run), rank));
    return allocated;
}

// Compares the attempts first: the message about a commit of an older attempt may arrive after one about a newer
// attempt.
bool newer(const Checkpoint& a, const Checkpoint& b) {
    return a.attempt != b.attempt ? a.attempt > b.attempt : a.sequence > b.sequence;
}

std::vector<const Checkpoint*> retained_checkpoints(const Cluster& cluster, RunId run) {
    std::vector<const Checkpoint*> all;
    for (auto at = cluster.checkpoints.lower_bound({.run = run, .directory = {}});
         at != cluster.checkpoints.end() && at->first.run == run; ++at)
        if (!at->second.deleting) all.push_back(&at->second);
    return all;
}

}  // namespace core
}  // namespace rtrain

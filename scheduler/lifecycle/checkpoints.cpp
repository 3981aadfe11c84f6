// Decides which checkpoints are deleted. Deletions are decided here only, after the newer commit is in the records. An
// agent carries them out and confirms them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain {

namespace core {
namespace {

bool named_by_an_attempt(const Cluster& cluster, RunId run, const std::string& directory) {
    for (auto at = cluster.attempts.lower_bound({.run = run, .number = 0});
         at != cluster.attempts.end() && at->first.run == run; ++at)
        if (at->second.from == directory) return true;
    return false;
}

// The higher score is better, and a missing score is the worst (NaN is never stored). Without a score attribute all are
// equal, and the newer one is better.
double score(const Checkpoint& checkpoint, const Retention& retention) {
    if (retention.score_attribute.empty()) return 0;
    const auto entry = checkpoint.metrics.find(retention.score_attribute);
    if (entry == checkpoint.metrics.end()) return -std::numeric_limits<double>::infinity();
    return retention.higher_is_better ? entry->second : -entry->second;
}

// A metric name that no report contains is a mistake: ranking by it would delete the best checkpoints.
bool ranked(const Retention& retention, const std::vector<const Checkpoint*>& all) {
    const std::string& name = retention.score_attribute;
    return name.empty() || std::any_of(all.begin(), all.end(), [&](const Checkpoint* checkpoint) {
               return checkpoint->metrics.contains(name);
           });
}

void delete_checkpoint(Change& change, const CheckpointKey& key) {
    const NodeId node = deletes_for(change.seen(), change.seen().runs.at(key.run));
    // No node can delete the checkpoint now. The order is repeated when a node registers.
    if (node.value.empty()) return;
    change.act(DeleteCheckpoint{.run = key.run, .directory = key.directory, .node = node});
}

}  // namespace

}  // namespace core

namespace core {
namespace {

// Returns the run's checkpoints that `num_to_keep` counts and may delete.
std::vector<const Checkpoint*> counted_ones(const Cluster& cluster, RunId run) {
    auto all = retained_checkpoints(cluster, run);
    std::erase_if(all, [](const Checkpoint* checkpoint) { return checkpoint->spared; });
    return all;
}

void note_earlier(Change& change, RunId id, const std::vector<CheckpointKey>& going) {
    std::string names;
    for (const CheckpointKey& key : going)
        if (change.seen().checkpoints.at(key).earlier) names += (names.empty() ? "" : ", ") + key.directory;
    if (names.empty()) return;
    const Run& run = change.seen().runs.at(id);
    change.about(id);
    change.note(notes::deletes_earlier(run, names));
}

// Keeps the best num_to_keep checkpoints, the latest one (of a succeeded run only if it is to stay), those from which
// live attempts started, and those that wait for their validation.
void keep_the_best(Change& change, RunId id) {
    const Run& run = change.seen().runs.at(id);
    const Retention& retention = run.spec.retention;
    if (!retention.num_to_keep) return;
    auto all = counted_ones(change.seen(), id);
    std::sort(all.begin(), all.end(), [&](const Checkpoint* a, const Checkpoint* b) {
        const double x = score(*a, retention), y = score(*b, retention);
        return x != y ? x > y : newer(*a, *b);
    });
    const Attempt* live = live_attempt(change.seen(), id);
    const bool latest_goes = retention.latest_until_success && run.state == RunState::succeeded;
    const Checkpoint* latest = latest_goes ? nullptr : latest_checkpoint(change.seen(), id);
    std::vector<CheckpointKey> going;
    for (std::size_t i = all.size(); i > *retention.num_to_keep && going.size() < limits::deletions_most; --i) {
        const Checkpoint& checkpoint = *all[i - 1];
        const bool pinned = live != nullptr && live->from == checkpoint.directory;
        if (&checkpoint != latest && !pinned && !checkpoint.validating)
            going.push_back({.run = id, .directory = checkpoint.directory});
    }
    note_earlier(change, id, going);
    for (const CheckpointKey& key : going) {
        change.edit(key).deleting = true;
        delete_checkpoint(change, key);
    }
}

}  // namespace

// Keeps all checkpoints while none has the metric by which they are ranked.
void retain(Change& change, RunId id) {
    const Retention& retention = change.seen().runs.at(id).spec.retention;
    if (retention.num_to_keep && ranked(retention, counted_ones(change.seen(), id))) keep_the_best(change, id);
}

// NaN is the worst score. A report that contains it shows that the metric's name is no mistake.
static void retain(Change& change, RunId id, const std::map<std::string, double>& reported) {
    const Run& run = change.seen().runs.at(id);
    const Retention& retention = run.spec.retention;
    if (reported.contains(retention.score_attribute)) return keep_the_best(change, id);
    retain(change, id);
    if (retention.num_to_keep && run.checkpoints == *retention.num_to_keep + 1ul &&
        !ranked(retention, counted_ones(change.seen(), id)))
        change.note(notes::no_score(retention.score_attribute));
}

void repeat_deletions(Change& change, const NodeId& node) {
    for (const auto& [key, checkpoint] : change.seen().checkpoints)
        if (checkpoint.deleting && deletes_for(change.seen(), change.seen().runs.at(key.run)) == node)
            change.act(DeleteCheckpoint{.run = key.run, .directory = key.directory, .node = node});
}

void know_earlier(Change& change, RunId id, const std::vector<Checkpoint>& earlier) {
    for (const Checkpoint& checkpoint : earlier) {
        if (change.seen().checkpoints.contains({.run = id, .directory = checkpoint.directory})) continue;
        Checkpoint known = checkpoint;
        known.run = id;
        known.earlier = true;
        std::erase_if(known.metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
        change.add(std::move(known));
    }
}

void on(Change& change, const CheckpointCommitted& event) {
    const Attempt* attempt = meant_attempt(change.seen(), event.attempt);
    if (attempt == nullptr || event.directory.empty()) return;
    const RunId id = attempt->id.run;
    const bool newest = attempt->id.number == change.seen().runs.at(id).attempts;
    // A commit of an older attempt counts only if a later attempt started from it. Others lie on a dead branch, or are
    // older still.
    if (!newest && !named_by_an_attempt(change.seen(), id, event.directory)) return;
    if (change.seen().checkpoints.contains({.run = id, .directory = event.directory})) return;
    // NaN is left out: a record that contains it would not be equal to itself.
    std::map<std::string, double> numbers = event.metrics;
    std::erase_if(numbers, [](const auto& metric) { return !std::isfinite(metric.second); });
    Run& run = change.edit(id);
    change.add(Checkpoint{.run = id,
                          .directory = event.directory,
                          .attempt = attempt->id.number,
                          .sequence = ++run.checkpoints,
                          .world_size = event.world_size,
                          .bytes = event.bytes,
                          .metrics = std::move(numbers),
                          .committed = change.now(),
                          .uploaded_in = event.uploaded_in,
                          .committed_wall_ms = event.wall_ms,
                          .deleting = false,
                          .validating = false,
                          .earlier = false,
                          .spared = false});
    if (newest && !attempt->committed && !terminal(attempt->state)) change.edit(attempt->id).committed = true;
    change.about(id);
    change.note(notes::committed(run, event.directory));
    retain(change, id, event.metrics);
    if (newest) fulfil_request(change, attempt->id, event.answers);
}

void on(Change& change, const CheckpointLost& event) {
    const Attempt* known = meant_attempt(change.seen(), event.attempt);
    if (known == nullptr || terminal(known->state)) return;
    Attempt& attempt = change.edit(known->id);
    ++attempt.checkpoints_lost;
    attempt.last_checkpoint_lost = event.why;
}

void on(Change& change, const CheckpointValidated& event) {
    const CheckpointKey key{.run = event.run, .directory = event.directory};
    const auto known = change.seen().checkpoints.find(key);
    if (known == change.seen().checkpoints.end() || known->second.deleting) return;
    Checkpoint& checkpoint = change.edit(key);
    checkpoint.validating = event.pending;
    for (const auto& [name, value] : event.metrics)
        if (std::isfinite(value)) checkpoint.metrics[name] = value;
    change.about(event.run);
    change.note(notes::validated(event));
    retain(change, event.run, event.metrics);
}

void on(Change& change, const CheckpointVerified& event) {
    const CheckpointKey key{.run = event.run, .directory = event.directory};
    const auto known = change.seen().checkpoints.find(key);
    if (known == change.seen().checkpoints.end() || known->second.deleting) return;
    Checkpoint& checkpoint = change.edit(key);
    checkpoint.verified_wall_ms = event.wall_ms;
    checkpoint.faults = event.faults;
    change.about(event.run);
    change.note(notes::verified(event));
}

// A confirmation for a checkpoint that is not to be deleted is ignored: its record stays.
void on(Change& change, const CheckpointDeleted& event) {
    const CheckpointKey key{.run = event.run, .directory = event.directory};
    const auto known = change.seen().checkpoints.find(key);
    if (known == change.seen().checkpoints.end() || !known->second.deleting) return;
    change.about(event.run);
    change.note(notes::deleted(event.directory));
    const Run& run = change.seen().runs.at(event.run);
    // The checkpoint's directory is one on storage, so it is gone for every run of the same name.
    for (const auto& [id, other] : change.seen().runs)
        if (other.name == run.name && other.storage_path == run.storage_path)
            if (const CheckpointKey same{.run = id, .directory = event.directory};
                change.seen().checkpoints.contains(same))
                change.erase(same);
}

}  // namespace core
}  // namespace rtrain

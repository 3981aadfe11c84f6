// Collects what one event changed: removals first, then the final value of each touched record, in the order of ids.
#include "scheduler/change.hpp"

#include <algorithm>

namespace rtrain::core {
namespace {

template <class Map, class Key>
auto& value_at(Map& map, const Key& key, const char* what) {
    const auto found = map.find(key);
    RTRAIN_CHECK(found != map.end(), std::string("no such ") + what);
    return found->second;
}

}  // namespace

Node& Change::edit(const NodeId& id) {
    touched_nodes_.insert(id);
    return value_at(cluster_.nodes, id, "node");
}

Run& Change::edit(RunId id) {
    touched_runs_.insert(id);
    return value_at(cluster_.runs, id, "run");
}

Attempt& Change::edit(AttemptId id) {
    touched_attempts_.insert(id);
    return value_at(cluster_.attempts, id, "attempt");
}

Checkpoint& Change::edit(const CheckpointKey& key) {
    touched_checkpoints_.insert(key);
    return value_at(cluster_.checkpoints, key, "checkpoint");
}

Meta& Change::edit_meta() {
    meta_ = true;
    return cluster_.meta;
}

void Change::add(Node node) {
    touched_nodes_.insert(node.id);
    cluster_.nodes.insert_or_assign(node.id, std::move(node));
}

void Change::add(Run run) {
    touched_runs_.insert(run.id);
    cluster_.runs.insert_or_assign(run.id, std::move(run));
}

void Change::add(Attempt attempt) {
    touched_attempts_.insert(attempt.id);
    cluster_.attempts.insert_or_assign(attempt.id, std::move(attempt));
}

void Change::add(Checkpoint checkpoint) {
    const CheckpointKey key{.run = checkpoint.run, .directory = checkpoint.directory};
    touched_checkpoints_.insert(key);
    cluster_.checkpoints.insert_or_assign(key, std::move(checkpoint));
}

void Change::erase(const NodeId& id) {
    touched_nodes_.erase(id);
    erased_nodes_.insert(id);
    cluster_.nodes.erase(id);
}

void Change::erase(RunId id) {
    touched_runs_.erase(id);
    erased_runs_.insert(id);
    apply(cluster_, EraseRun{id});
}

void Change::erase(const CheckpointKey& key) {
    touched_checkpoints_.erase(key);
    erased_checkpoints_.insert(key);
    cluster_.checkpoints.erase(key);
}

void Change::renumber(AttemptId from, std::uint32_t number) {
    Attempt attempt = value_at(cluster_.attempts, from, "attempt");
    cluster_.attempts.erase(from);
    touched_attempts_.erase(from);
    erased_attempts_.insert(from);
    attempt.id.number = number;
    edit(from.run).attempts = number;
    add(std::move(attempt));
}

void Change::note(const std::string& text) { out_.note += (out_.note.empty() ? "" : "; ") + text; }

void Change::save_values() {
    for (const NodeId& id : erased_nodes_) out_.save.push_back(EraseNode{id});
    for (const RunId id : erased_runs_) out_.save.push_back(EraseRun{id});
    for (const AttemptId id : erased_attempts_) out_.save.push_back(EraseAttempt{id});
    for (const CheckpointKey& key : erased_checkpoints_) out_.save.push_back(EraseCheckpoint{key});
    for (const NodeId& id : touched_nodes_) out_.save.push_back(cluster_.nodes.at(id));
    for (const RunId id : touched_runs_) out_.save.push_back(cluster_.runs.at(id));
    for (const AttemptId id : touched_attempts_) out_.save.push_back(cluster_.attempts.at(id));
    for (const CheckpointKey& key : touched_checkpoints_) out_.save.push_back(cluster_.checkpoints.at(key));
}

// Time is persisted with every change, and only then: an event that changes nothing leaves no trace.
Decision Change::finish() {
    save_values();
    if (meta_ || !out_.save.empty()) {
        cluster_.meta.now = now_;
        out_.save.insert(out_.save.begin(), cluster_.meta);
    }
    return std::move(out_);
}

}  // namespace rtrain::core

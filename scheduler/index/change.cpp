// Collects what one event changed: removals first, then the final value of each touched record, in the order of ids.
#include "scheduler/index/change.hpp"

#include <algorithm>

#include "scheduler/model/derived.hpp"
#include "scheduler/model/queue_use.hpp"

namespace rtrain::core {
namespace {

template <class Map, class Key>
auto& value_at(Map& map, const Key& key, const char* what) {
    const auto entry = map.find(key);
    RTRAIN_CHECK(entry != map.end(), std::string("no such ") + what);
    return entry->second;
}

}  // namespace

Node& Change::edit(const NodeId& id) {
    touched_nodes_.insert(id);
    stale_.nodes.insert(id);
    return value_at(cluster_.nodes, id, "node");
}

Run& Change::edit(RunId id) {
    touched_runs_.insert(id);
    stale_.runs.insert(id);
    return value_at(cluster_.runs, id, "run");
}

Attempt& Change::edit(AttemptId id) {
    touched_attempts_.insert(id);
    stale_.attempts.insert(id);
    return value_at(cluster_.attempts, id, "attempt");
}

Worker& Change::edit(AttemptId id, Rank rank) {
    touched_workers_.insert({id, rank});
    Attempt& attempt = value_at(cluster_.attempts, id, "attempt");
    // the end of a stopping attempt is known once all its processes have exited
    if (attempt.state == AttemptState::stopping) stale_.attempts.insert(id);
    return attempt.workers.at(rank.value);
}

void Change::no_longer_waits(AttemptId id, const NodeId& node) {
    touched_waits_.insert({id, node});
    std::erase(value_at(cluster_.attempts, id, "attempt").nodes_waiting, node);
}

Checkpoint& Change::edit(const CheckpointKey& key) {
    touched_checkpoints_.insert(key);
    return value_at(cluster_.checkpoints, key, "checkpoint");
}

PendingArray& Change::edit_array(RunId first) {
    touched_arrays_.insert(first);
    return value_at(cluster_.arrays, first, "pending array");
}

void Change::add(PendingArray array) {
    touched_arrays_.insert(array.model.id);
    cluster_.arrays.insert_or_assign(array.model.id, std::move(array));
}

void Change::erase_array(RunId first) {
    touched_arrays_.erase(first);
    erased_arrays_.insert(first);
    cluster_.arrays.erase(first);
}

Meta& Change::edit_meta() {
    meta_ = true;
    return cluster_.meta;
}

void Change::add(Node node) {
    touched_nodes_.insert(node.id);
    stale_.nodes.insert(node.id);
    cluster_.nodes.insert_or_assign(node.id, std::move(node));
}

void Change::add(Run run) {
    touched_runs_.insert(run.id);
    stale_.runs.insert(run.id);
    cluster_.runs.insert_or_assign(run.id, std::move(run));
}

void Change::add(Attempt attempt) {
    touched_attempts_.insert(attempt.id);
    stale_.attempts.insert(attempt.id);
    cluster_.attempts.insert_or_assign(attempt.id, std::move(attempt));
}

void Change::add(Checkpoint checkpoint) {
    const CheckpointKey key{.run = checkpoint.run, .directory = checkpoint.directory};
    touched_checkpoints_.insert(key);
    cluster_.checkpoints.insert_or_assign(key, std::move(checkpoint));
    pace_changes(key.run);
}

// Marks the run's attempt for a new estimate of its end. A checkpoint changes the estimate if the run ends at a value
// of a metric.
void Change::pace_changes(RunId id) {
    const auto run = cluster_.runs.find(id);
    if (run != cluster_.runs.end() && !run->second.spec.stop_at.empty()) stale_.runs.insert(id);
}

void Change::erase(const NodeId& id) {
    touched_nodes_.erase(id);
    erased_nodes_.insert(id);
    stale_.nodes.insert(id);
    cluster_.nodes.erase(id);
}

void Change::erase(RunId id) {
    touched_runs_.erase(id);
    erased_runs_.insert(id);
    stale_.runs.insert(id);
    const RunId next{id.value + 1};
    const auto first = cluster_.attempts.lower_bound({.run = id, .number = 0});
    const auto last = cluster_.attempts.lower_bound({.run = next, .number = 0});
    for (auto at = first; at != last; ++at) stale_.attempts.insert(at->first);
    cluster_.attempts.erase(first, last);
    cluster_.checkpoints.erase(cluster_.checkpoints.lower_bound({.run = id, .directory = {}}),
                               cluster_.checkpoints.lower_bound({.run = next, .directory = {}}));
    cluster_.runs.erase(id);
}

void Change::erase(const CheckpointKey& key) {
    touched_checkpoints_.erase(key);
    erased_checkpoints_.insert(key);
    cluster_.checkpoints.erase(key);
    pace_changes(key.run);
}

void Change::renumber(AttemptId from, std::uint32_t number) {
    Attempt attempt = value_at(cluster_.attempts, from, "attempt");
    cluster_.attempts.erase(from);
    touched_attempts_.erase(from);
    erased_attempts_.insert(from);
    stale_.attempts.insert(from);
    attempt.id.number = number;
    edit(from.run).attempts = number;
    for (const RunId waiting : std::set<RunId>(cluster_.index.reserving())) {
        const std::vector<AttemptId>& after = cluster_.runs.at(waiting).reserved_after;
        if (std::find(after.begin(), after.end(), from) == after.end()) continue;
        std::vector<AttemptId>& renamed = edit(waiting).reserved_after;
        std::replace(renamed.begin(), renamed.end(), from, AttemptId{.run = from.run, .number = number});
    }
    add(std::move(attempt));
}

void Change::configure(const Queues& queues) {
    for (const auto& [line, batches] : cluster_.index.waiting())
        if (line.user.empty() == limits_users(queues, line.queue))  // the runs move to other lines
            for (const auto& [shape, batch] : batches)
                for (const Waiter& waiter : batch.by_age) stale_.runs.insert(waiter.id);
    cluster_.queues = queues;
    queues_ = true;
}

void Change::count_given_back() {
    for (const AttemptId id : stale_.attempts) {
        const auto entry = cluster_.attempts.find(id);
        if (entry == cluster_.attempts.end() || !terminal(entry->second.state)) continue;
        const auto run = cluster_.runs.find(id.run);
        if (run == cluster_.runs.end() || !cluster_.index.live_attempts().contains(id)) continue;
        for (std::size_t rank = 0; rank < entry->second.workers.size(); ++rank) {
            rtrain::add(given_back_, demand_of(run->second, rank));
            given_back_on_.insert(entry->second.workers[rank].seat.node);
        }
    }
}

void Change::settle() {
    if (stale_.nodes.empty() && stale_.runs.empty() && stale_.attempts.empty() && !queues_) return;
    count_given_back();
    const bool holdings = !stale_.attempts.empty() || queues_;
    cluster_.index.update(cluster_, stale_);
    stale_ = {};
    if (!cluster_.queues.rules.empty()) charge();
    if (holdings && (!cluster_.budgets.empty() || has_budgets(cluster_.queues))) charge_budgets();
}

// Charges each queue for what it held until now, before the record of its use changes.
void Change::charge() {
    for (const auto& [queue, in_use] : cluster_.index.in_use()) {
        const auto known = cluster_.use.find(queue);
        if (known == cluster_.use.end() ? in_use.empty() : recorded_as(known->second.held, in_use)) continue;
        QueueUse before = known == cluster_.use.end() ? QueueUse{} : known->second;
        if (known == cluster_.use.end()) before.at = now_;
        before.queue = queue;
        cluster_.use.insert_or_assign(queue, charged(before, saturated(in_use), now_, cluster_.queues.half_life));
        touched_use_.insert(queue);
    }
}

// Charges each budget whose GPUs have changed. Removes records without use when a new one is made.
void Change::charge_budgets() {
    const std::map<QueueUser, Amount> held = held_in_budgets(cluster_);
    const auto window_of = [&](const QueueUser& who) -> std::optional<Duration> {
        const auto rules = cluster_.queues.rules.find(who.first);
        if (rules == cluster_.queues.rules.end() || !rules->second.has_budgets()) return std::nullopt;
        return rules->second.budget_window;
    };
    bool changed = queues_;
    for (const auto& [who, use] : std::map(cluster_.budgets)) {
        const auto entry = held.find(who);
        const Amount now = entry == held.end() ? Amount{} : entry->second;
        const auto window = window_of(who);
        const bool unused = !window || (now.ticks == 0 && charged(use, now, now_, *window).used.empty());
        if (unused) {
            cluster_.budgets.erase(who);
            touched_budgets_.erase(who);
            erased_budgets_.insert(who);
        } else if (now != use.held) {
            cluster_.budgets.at(who) = charged(use, now, now_, *window);
            touched_budgets_.insert(who);
        }
        changed = changed || unused || now != use.held;
    }
    for (const auto& [who, now] : held) {
        if (cluster_.budgets.contains(who)) continue;
        cluster_.budgets.emplace(who, BudgetUse{.queue = who.first, .user = who.second, .at = now_, .held = now});
        erased_budgets_.erase(who);
        touched_budgets_.insert(who);
        changed = true;
    }
    if (changed) cluster_.spent = spent_budgets(cluster_, now_);
}

bool Change::renew_budgets() {
    SpentBudgets& spent = cluster_.spent;
    if (spent.known && (!spent.changes || *spent.changes > now_)) return false;
    // includes the time in which no head was running
    const bool may_have_changed = spent.known || !cluster_.budgets.empty();
    spent = spent_budgets(cluster_, now_);
    return may_have_changed;
}

void Change::write_note() {
    for (const Note& note : notes_) {
        const bool hides = note.words_of && note.words_of != out_.about_run;
        out_.note += (out_.note.empty() ? "" : "; ") + (hides ? note.hidden : note.shown);
    }
}

// Saves the time with every change, and only then: an event that changes nothing leaves no trace.
void Change::save_values() {
    const std::size_t values =
        erased_nodes_.size() + erased_runs_.size() + erased_attempts_.size() + erased_checkpoints_.size() +
        touched_nodes_.size() + touched_runs_.size() + touched_attempts_.size() + touched_waits_.size() +
        touched_workers_.size() + touched_checkpoints_.size() + touched_use_.size() + touched_arrays_.size() +
        erased_arrays_.size() + touched_budgets_.size() + erased_budgets_.size() + (queues_ ? 1 : 0);
    if (values == 0 && !meta_) return;
    cluster_.meta.now = now_;
    out_.save.reserve(values + 1);
    out_.save.emplace_back(cluster_.meta);
    for (const NodeId& id : erased_nodes_) out_.save.emplace_back(EraseNode{id});
    for (const RunId id : erased_runs_) out_.save.emplace_back(EraseRun{id});
    for (const AttemptId id : erased_attempts_) out_.save.emplace_back(EraseAttempt{id});
    for (const CheckpointKey& key : erased_checkpoints_) out_.save.emplace_back(EraseCheckpoint{key});
    for (const RunId first : erased_arrays_) out_.save.emplace_back(EraseArray{first});
    for (const auto& [queue, user] : erased_budgets_) out_.save.emplace_back(EraseBudgetUse{queue, user});
    for (const NodeId& id : touched_nodes_) out_.save.emplace_back(cluster_.nodes.at(id));
    for (const RunId id : touched_runs_) out_.save.emplace_back(cluster_.runs.at(id));
    save_attempts();
    for (const CheckpointKey& key : touched_checkpoints_) out_.save.emplace_back(cluster_.checkpoints.at(key));
    for (const RunId first : touched_arrays_) out_.save.emplace_back(cluster_.arrays.at(first));
    if (queues_) out_.save.emplace_back(cluster_.queues);
    for (const std::string& queue : touched_use_) out_.save.emplace_back(cluster_.use.at(queue));
    for (const QueueUser& who : touched_budgets_) out_.save.emplace_back(cluster_.budgets.at(who));
}

// Saves whole attempts, and parts of attempts that are not saved whole.
void Change::save_attempts() {
    for (const AttemptId id : touched_attempts_) out_.save.emplace_back(cluster_.attempts.at(id));
    for (const auto& [id, node] : touched_waits_)
        if (!touched_attempts_.contains(id) && cluster_.attempts.contains(id))
            out_.save.emplace_back(AttemptNode{.attempt = id, .node = node});
    for (const auto& [id, rank] : touched_workers_) {
        const auto entry = cluster_.attempts.find(id);
        if (touched_attempts_.contains(id) || entry == cluster_.attempts.end()) continue;
        const Worker& worker = entry->second.workers[rank.value];
        out_.save.emplace_back(AttemptWorker{.attempt = id,
                                             .rank = rank,
                                             .state = worker.state,
                                             .pid = worker.pid,
                                             .exit = worker.exit,
                                             .exit_wall_us = worker.exit_wall_us});
    }
}

Decision Change::finish() {
    settle();
    save_values();
    write_note();
    return std::move(out_);
}

}  // namespace rtrain::core

// Adds runs and attempts to the cluster index and removes them. Each entry stores where it was added, so that it can be
// removed after the record has changed.
#include "scheduler/index/cluster_index.hpp"

#include <algorithm>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain {
namespace {

std::string array_key(const std::string& array, const std::string& user) {
    return std::to_string(user.size()) + ":" + user + array;
}

void add_text(std::string& key, const std::string& text) { key += std::to_string(text.size()) + ":" + text; }

void add_bundle(std::string& key, const Bundle& bundle) {
    for (const auto& [name, amount] : bundle.demand) {
        add_text(key, name);
        key += "=" + std::to_string(amount.ticks) + ";";
    }
    for (const LabelCondition& condition : bundle.selector) {
        add_text(key, condition.key);
        key += condition.negated ? "!" : "~";
        for (const std::string& value : condition.values) add_text(key, value);
    }
    key += "|";
}

// Returns a key that is equal for equal requests.
std::string key_of(const GangRequest& gang) {
    std::string key = std::to_string(static_cast<int>(gang.strategy));
    if (gang.driver) key += "d";
    if (!gang.user.empty()) add_text(key += "u", gang.user);
    if (gang.topology_label) add_text(key += "t", *gang.topology_label);
    for (const auto& [bundle, node] : gang.placed) add_text(key += "p" + std::to_string(bundle) + ",", node.value);
    for (const NodeId& node : gang.nodes_only) add_text(key += "o", node.value);
    for (const NodeId& node : gang.nodes_excluded) add_text(key += "x", node.value);
    for (const NodeId& node : gang.nodes_avoided) add_text(key += "a", node.value);
    for (std::size_t i = 0; i < gang.bundles.size();) {
        std::size_t end = i + 1;
        while (end < gang.bundles.size() && gang.bundles[end] == gang.bundles[i]) ++end;
        key += "#" + std::to_string(end - i) + "*";
        add_bundle(key, gang.bundles[i]);
        i = end;
    }
    return key;
}

}  // namespace

ReservedSeats core::reserved_seats_of(const Run& run) {
    ReservedSeats seats{.from = run.reserved_from.ms == 0 ? unknown_end : run.reserved_from,
                        .whole = run.seats_reserved.empty(),
                        .nodes = {},
                        .after = {run.reserved_after.begin(), run.reserved_after.end()}};
    for (const NodeId& node : run.nodes_reserved) seats.nodes[node];
    for (std::size_t rank = 0; rank < run.seats_reserved.size(); ++rank) {
        const Seat& seat = run.seats_reserved[rank];
        add(seats.nodes[seat.node], demand_of(run, rank), seat.gpus);
    }
    return seats;
}

const ClusterIndex& in_step(const Cluster& cluster, ClusterIndex& scratch) {
    if (cluster.index.in_step()) return cluster.index;
    scratch.catch_up(cluster);
    return scratch;
}

const std::set<Waiter>& ClusterIndex::waiting_of(const std::string& program) const {
    static const std::set<Waiter> nobody;
    const auto entry = waiting_of_.find(program);
    return entry == waiting_of_.end() ? nobody : entry->second;
}

std::vector<RunId> ClusterIndex::position_holders(Time until) const {
    std::set<Waiter> holders;
    const auto add_one = [&](RunId id) {
        const auto known = runs_.find(id);
        if (known != runs_.end() && known->second.waits) holders.insert(known->second.waiter);
    };
    for (const RunId id : reserving_) add_one(id);
    for (auto at = retries_.begin(); at != retries_.end() && at->first <= until; ++at) add_one(at->second);
    std::vector<RunId> ids;
    for (const Waiter& waiter : holders) ids.push_back(waiter.id);
    return ids;
}

std::uint32_t ClusterIndex::shape_of(const GangRequest& gang) {
    std::string key = key_of(gang);
    const auto known = shape_numbers_.find(key);
    if (known != shape_numbers_.end()) return ++shapes_[known->second].waiting, known->second;
    Shape shape{.gang = gang, .total = {}, .waiting = 1};
    for (const Bundle& bundle : gang.bundles) add(shape.total, bundle.demand);
    std::uint32_t number = static_cast<std::uint32_t>(shapes_.size());
    if (free_shapes_.empty()) {
        shapes_.emplace_back();
        shape_keys_.emplace_back();
    } else {
        number = free_shapes_.back();
        free_shapes_.pop_back();
    }
    shapes_[number] = std::move(shape);
    shape_keys_[number] = key;
    shape_numbers_.emplace(std::move(key), number);
    return number;
}

void ClusterIndex::remove_from_shape(std::uint32_t number) {
    if (--shapes_[number].waiting > 0) return;
    shape_numbers_.erase(shape_keys_[number]);
    ever_.erase(number);
    shapes_[number] = {};
    free_shapes_.push_back(number);
}

void ClusterIndex::forget_run(RunId id, Names names) {
    const auto entry = runs_.find(id);
    if (entry == runs_.end()) return;
    const Known& known = entry->second;
    if (names == Names::drop) {
        const auto named = live_names_.find(known.name);
        if (known.live && named != live_names_.end() && named->second == id) live_names_.erase(named);
        const auto same_key = submitted_.find({known.user, known.submit_key});
        if (same_key != submitted_.end() && same_key->second.erase(id) > 0 && same_key->second.empty())
            submitted_.erase(same_key);
    }
    if (known.waits && !known.program.empty()) {
        const auto of = waiting_of_.find(known.program);
        of->second.erase(known.waiter);
        if (of->second.empty()) waiting_of_.erase(of);
    }
    if (known.waits) {
        Batches& batches = waiting_.at(known.line);
        WaitingBatch& batch = batches.at(known.shape);
        batch.by_age.erase(known.waiter);
        batch.by_length.erase({known.length, id});
        if (batch.by_age.empty()) batches.erase(known.shape);
        remove_from_shape(known.shape);
    }
    fresh_.erase(id);
    reserving_.erase(id);
    if (known.reserved) reservations_.erase({*known.reserved, id});
    if (known.limit) limits_.erase({*known.limit, id});
    if (known.retry) retries_.erase({*known.retry, id});
    if (known.starves) starves_.erase({*known.starves, id});
    forget_waits(id, known);
    runs_.erase(entry);
}

// Returns the number of the run's shape, with one more user of it, if the run still waits with the same request;
// nullopt otherwise. A shape seldom changes, and computing it is slow for large gangs.
std::optional<std::uint32_t> ClusterIndex::keep_shape(const Run& run) {
    const auto before = runs_.find(run.id);
    if (before == runs_.end() || !before->second.waits || before->second.avoided != run.nodes_avoided ||
        before->second.least != workers_min(run))
        return std::nullopt;
    ++shapes_[before->second.shape].waiting;
    return before->second.shape;
}

void ClusterIndex::renew_run(const Cluster& cluster, RunId id) {
    const auto entry = cluster.runs.find(id);
    if (entry == cluster.runs.end()) {
        forget_run(id, Names::drop);
        if (reserved_.bit_of(id) != 0) reserve_for(id, {});
        return;
    }
    const Run& run = entry->second;
    const auto before = runs_.find(id);
    const bool as_before =  // The names never change.
        before != runs_.end() && before->second.live == !terminal(run.state);
    const std::optional<std::uint32_t> same_shape = keep_shape(run);
    forget_run(id, as_before ? Names::keep : Names::drop);
    if (reserved_.bit_of(id) != 0 && run.nodes_reserved.empty()) reserve_for(id, {});
    Known known;
    known.name = run.name;
    known.user = run.user;
    known.submit_key = run.submit_key;
    known.program = run.program;
    known.live = !terminal(run.state);
    known.waits = (run.state == RunState::queued || run.state == RunState::recovering) && !core::is_blocked(run);
    if (!run.nodes_reserved.empty()) reserve_for(id, known.waits ? core::reserved_seats_of(run) : ReservedSeats{});
    if (!as_before) add_names(run);
    if (known.waits) add_waiting(cluster, run, same_shape, known);
    if (!known.waits && same_shape) remove_from_shape(*same_shape);
    known.limit = core::limit_of(cluster, run);
    if (known.limit) limits_.insert({*known.limit, id});
    if (known.waits && run.retry_at.ms != 0) known.retry = run.retry_at;
    if (known.retry) retries_.insert({*known.retry, id});
    renew_waits(run, known);
    runs_.emplace(id, std::move(known));
}

void ClusterIndex::add_names(const Run& run) {
    if (!terminal(run.state)) live_names_.insert_or_assign(run.name, run.id);
    if (!run.submit_key.empty()) submitted_[{run.user, run.submit_key}].insert(run.id);
}

// Adds the run to the queue. `same_shape`: the shape that keep_shape has kept.
void ClusterIndex::add_waiting(const Cluster& cluster, const Run& run, std::optional<std::uint32_t> same_shape,
                               Known& known) {
    const RunId id = run.id;
    known.line = {.priority = run.spec.priority,
                  .queue = run.spec.queue,
                  .user = limits_users(cluster.queues, run.spec.queue) ? run.user : ""};
    known.shape = same_shape ? *same_shape : shape_of(request_of(run));
    known.avoided = run.nodes_avoided;
    known.least = workers_min(run);
    known.waiter = {.submitted = run.submitted, .id = id};
    known.length = run.spec.wall_time_limit.value_or(for_ever);
    WaitingBatch& batch = waiting_[known.line][known.shape];
    batch.by_age.insert(known.waiter);
    if (!known.program.empty()) waiting_of_[known.program].insert(known.waiter);
    batch.by_length.insert({known.length, id});
    // An earlier version stored the reason as a sentence. The run gets a new reason as a value.
    const bool old_sentence = run.state == RunState::queued && run.reason.is<reasons::Text>();
    if (run.reason.none() || old_sentence) fresh_.insert(id);
    if (!run.nodes_reserved.empty()) reserving_.insert(id);
    if (run.reserved_from.ms != 0) known.reserved = run.reserved_from;
    if (known.reserved) reservations_.insert({*known.reserved, id});
    const Shape& shape = shapes_[known.shape];
    if (!shape.total.empty() && shape.gang.bundles.size() > 1) known.starves = run.submitted + limits::starves_after;
    if (known.starves) starves_.insert({*known.starves, id});
}

// Renews the waits that do not belong to a queue: for predecessors, for a place in a job array, for growth.
void ClusterIndex::renew_waits(const Run& run, Known& known) {
    if (terminal(run.state)) return;
    for (const After& predecessor : run.after) known.after.push_back(predecessor.run);
    for (const RunId before : known.after) dependents_.insert({before, run.id});
    if (run.array_waits) known.array = array_key(run.array, run.user);
    if (!known.array.empty()) array_waiting_.insert({known.array, run.id});
    if (run.spec.elastic && run.state == RunState::running) elastic_.insert(run.id);
    if (run.spec.elastic && run.grow_since) known.grows = *run.grow_since + run.spec.elastic->grow_after;
    if (known.grows) growths_.insert({*known.grows, run.id});
}

void ClusterIndex::forget_waits(RunId id, const Known& known) {
    for (const RunId before : known.after) dependents_.erase({before, id});
    if (!known.array.empty()) array_waiting_.erase({known.array, id});
    if (known.grows) growths_.erase({*known.grows, id});
    elastic_.erase(id);
}

bool ClusterIndex::waits(RunId run) const {
    const auto known = runs_.find(run);
    return known != runs_.end() && known->second.waits;
}

std::vector<RunId> ClusterIndex::dependents(RunId run) const {
    std::vector<RunId> ids;
    for (auto at = dependents_.lower_bound({run, RunId{}}); at != dependents_.end() && at->first == run; ++at)
        ids.push_back(at->second);
    return ids;
}

std::optional<RunId> ClusterIndex::next_of(const std::string& array, const std::string& user) const {
    const std::string key = array_key(array, user);
    const auto next = array_waiting_.lower_bound({key, RunId{}});
    return next == array_waiting_.end() || next->first != key ? std::nullopt : std::optional(next->second);
}

std::optional<RunId> ClusterIndex::live_run(const std::string& name) const {
    const auto entry = live_names_.find(name);
    return entry == live_names_.end() ? std::nullopt : std::optional(entry->second);
}

std::optional<RunId> ClusterIndex::submitted(const std::string& user, const std::string& key) const {
    const auto entry = submitted_.find({user, key});
    return entry == submitted_.end() ? std::nullopt : std::optional(*entry->second.begin());
}

// A limit is due until it is enforced. The other times count only if they lie after `after`: the event that passed them
// has handled them.
std::optional<Time> ClusterIndex::next_wake(Time after) const {
    std::optional<Time> wake;
    const auto earlier = [&wake](Time time) { wake = !wake || time < *wake ? time : *wake; };
    if (!limits_.empty()) earlier(limits_.begin()->first);
    if (!request_deadlines_.empty()) earlier(request_deadlines_.begin()->first);
    if (!drained_.empty()) earlier(drained_.begin()->first);
    for (const auto* times : {&retries_, &reservations_, &growths_, &starves_}) {
        const auto next = times->upper_bound({after, RunId{UINT64_MAX}});
        if (next != times->end() && (!wake || next->first < *wake)) wake = next->first;
    }
    return wake;
}

std::vector<RunId> ClusterIndex::limits_until(Time now) const {
    std::vector<RunId> ids;
    for (auto at = limits_.begin(); at != limits_.end() && at->first <= now; ++at) ids.push_back(at->second);
    std::sort(ids.begin(), ids.end());
    return ids;
}

bool ClusterIndex::retries_within(Time after, Time until) const {
    const auto due = [&](const std::set<std::pair<Time, RunId>>& times) {
        const auto next = times.upper_bound({after, RunId{UINT64_MAX}});
        return next != times.end() && next->first <= until;
    };
    return due(retries_) || due(reservations_) || due(growths_) || due(starves_);
}

void ClusterIndex::update(const Cluster& cluster, const Stale& stale) {
    for (const NodeId& id : stale.nodes) renew_node(cluster, id), renew_drain(cluster, id);
    for (const AttemptId id : stale.attempts) renew_attempt(cluster, id), renew_request(cluster, id);
    for (const RunId id : stale.runs) renew_run(cluster, id);
    for (const AttemptId id : stale.attempts) renew_end(cluster, id);
    for (const RunId id : stale.runs)
        for (auto at = live_attempts_.lower_bound({id, 0}); at != live_attempts_.end() && at->run == id; ++at)
            renew_end(cluster, *at);
}

void ClusterIndex::catch_up(const Cluster& cluster) {
    if (in_step_) return;
    *this = {};
    in_step_ = true;
    Stale all;
    for (const auto& [id, node] : cluster.nodes) all.nodes.insert(id);
    for (const auto& [id, run] : cluster.runs) all.runs.insert(id);
    for (const auto& [id, attempt] : cluster.attempts)
        if (!terminal(attempt.state)) all.attempts.insert(id);
    update(cluster, all);
}

}  // namespace rtrain

// Reads changed records and updates the tables. Each entry of a run is stored as it was added, so that it can be
// removed after the record has changed.
#include "scheduler/index/cluster_index.hpp"

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain {

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

// ---- runs

bool ClusterIndex::waits(RunId run) const {
    const auto known = runs_.find(run);
    return known != runs_.end() && known->second.waiting;
}

std::vector<RunId> ClusterIndex::position_holders(Time until) const {
    std::set<Waiter> holders;
    const auto add_run = [&](RunId id) {
        const auto known = runs_.find(id);
        if (known != runs_.end() && known->second.waiting) holders.insert(known->second.waiting->waiter);
    };
    for (const RunId id : reserving()) add_run(id);
    for (const RunId id : times_.retries_until(until)) add_run(id);
    std::vector<RunId> ids;
    for (const Waiter& waiter : holders) ids.push_back(waiter.id);
    return ids;
}

void ClusterIndex::release_shape(std::uint32_t number) {
    if (shapes_.release(number)) search_.forget_shape(number);
}

void ClusterIndex::forget_run(RunId id, Names names) {
    const auto entry = runs_.find(id);
    if (entry == runs_.end()) return;
    const Known& known = entry->second;
    if (names == Names::drop) names_.remove(id, known.names);
    if (known.waiting) {
        waiting_.remove(*known.waiting);
        release_shape(known.waiting->shape);
    }
    times_.remove(id, known.times);
    links_.remove(id, known.links);
    runs_.erase(entry);
}

// Keeps the run's shape if the run still waits with the same request: counts one more user of the shape, and returns
// its number. Returns nullopt otherwise. A shape seldom changes, and computing it is slow for large gangs.
std::optional<std::uint32_t> ClusterIndex::keep_shape(const Run& run) {
    const auto before = runs_.find(run.id);
    if (before == runs_.end() || !before->second.waiting || before->second.avoided != run.nodes_avoided ||
        before->second.least != workers_min(run))
        return std::nullopt;
    const std::uint32_t number = before->second.waiting->shape;
    shapes_.use_again(number);
    return number;
}

void ClusterIndex::renew_run(const Cluster& cluster, RunId id) {
    const auto entry = cluster.runs.find(id);
    if (entry == cluster.runs.end()) {
        forget_run(id, Names::drop);
        if (reserved().bit_of(id) != 0) reserve_for(id, {});
        return;
    }
    const Run& run = entry->second;
    const bool is_live = !terminal(run.state);
    const auto before = runs_.find(id);
    // A run's name never changes.
    const bool as_before = before != runs_.end() && before->second.names.is_live == is_live;
    const std::optional<std::uint32_t> same_shape = keep_shape(run);
    forget_run(id, as_before ? Names::keep : Names::drop);
    if (reserved().bit_of(id) != 0 && run.nodes_reserved.empty()) reserve_for(id, {});
    Known known;
    known.names = {.name = run.name, .user = run.user, .submit_key = run.submit_key, .is_live = is_live};
    const bool waits = (run.state == RunState::queued || run.state == RunState::recovering) && !core::is_blocked(run);
    if (!run.nodes_reserved.empty()) reserve_for(id, waits ? core::reserved_seats_of(run) : ReservedSeats{});
    if (!as_before) names_.add(id, known.names);
    if (waits) {
        known.waiting = waiting_run(cluster, run, same_shape);
        known.avoided = run.nodes_avoided;
        known.least = workers_min(run);
        waiting_.add(*known.waiting);
    } else if (same_shape) {
        release_shape(*same_shape);
    }
    known.times = times_of(cluster, run, known.waiting);
    times_.add(id, known.times);
    if (is_live) {
        for (const After& predecessor : run.after) known.links.after.push_back(predecessor.run);
        if (run.array_waits) known.links.array = array_key(run.array, run.user);
        known.links.is_elastic = run.spec.elastic && run.state == RunState::running;
        if (may_yield(run)) known.links.owner = run.parent;
        known.links.is_yielding = yields(run);
        links_.add(id, known.links);
    }
    runs_.emplace(id, std::move(known));
}

// `same_shape`: the shape that keep_shape has kept.
WaitingRun ClusterIndex::waiting_run(const Cluster& cluster, const Run& run, std::optional<std::uint32_t> same_shape) {
    // An earlier version stored the reason as a sentence. The run gets a new reason as a value.
    const bool old_sentence = run.state == RunState::queued && run.reason.is<reasons::Text>();
    return {.line = {.yields = yields(run),
                     .priority = run.spec.priority,
                     .queue = run.spec.queue,
                     .user = limits_users(cluster.queues, run.spec.queue) ? run.user : ""},
            .shape = same_shape ? *same_shape : shapes_.use(request_of(run)),
            .waiter = {.submitted = run.submitted, .id = run.id},
            .length = run.spec.wall_time_limit.value_or(for_ever),
            .program = run.program,
            .is_fresh = run.reason.none() || old_sentence,
            .is_reserving = !run.nodes_reserved.empty()};
}

TimesOfRun ClusterIndex::times_of(const Cluster& cluster, const Run& run,
                                  const std::optional<WaitingRun>& waiting) const {
    TimesOfRun times;
    times.limit = core::limit_of(cluster, run);
    if (!terminal(run.state) && run.spec.elastic && run.grow_since)
        times.growth = *run.grow_since + run.spec.elastic->grow_after;
    if (!waiting) return times;
    if (run.retry_at.ms != 0) times.retry = run.retry_at;
    if (run.reserved_from.ms != 0) times.reservation = run.reserved_from;
    const Shape& shape = shapes_[waiting->shape];
    if (!shape.total.empty() && shape.gang.bundles.size() > 1) times.starvation = run.submitted + limits::starves_after;
    return times;
}

// ---- attempts

void ClusterIndex::renew_request(const Cluster& cluster, AttemptId id) {
    const auto entry = cluster.attempts.find(id);
    std::optional<Time> deadline;
    if (entry != cluster.attempts.end() && entry->second.state == AttemptState::running && entry->second.request)
        deadline = entry->second.request->deadline;
    requests_.put(id, deadline);
}

// An attempt keeps its seats from its placing to its end.
void ClusterIndex::renew_attempt(const Cluster& cluster, AttemptId id) {
    const auto record = cluster.attempts.find(id);
    const bool lives =
        record != cluster.attempts.end() && !terminal(record->second.state) && cluster.runs.contains(id.run);
    if (lives == allocations_.contains(id)) return;
    if (lives) {
        Allocation allocation = allocation_of(cluster.runs.at(id.run), record->second);
        nodes_.take(id, allocation);
        allocations_.add(id, std::move(allocation));
    } else {
        if (!reserved_.empty()) reserved_.forget_releases(id, nodes_, allocations_);
        nodes_.give_back(id, allocations_.at(id));
        allocations_.remove(id);
    }
}

void ClusterIndex::renew_end(const Cluster& cluster, AttemptId id) {
    if (!allocations_.contains(id)) return ends_.remove(id);
    const Attempt& attempt = cluster.attempts.at(id);
    allocations_.at(id).end = core::known_end(cluster, attempt).value_or(unknown_end);
    if (!reserved_.empty()) reserved_.renew_releases(id, nodes_, allocations_);
    const Run& run = cluster.runs.at(id.run);
    const bool is_fixed = attempt.state == AttemptState::running && run.started.ms != 0 && run.spec.stop_at.empty() &&
                          !attempt.request && !yields(run);
    if (is_fixed)
        ends_.put({.end = core::wall_time_end(run).value_or(unknown_end), .placed = attempt.placed_at, .attempt = id});
    else
        ends_.put_restless(id);
}

// ---- nodes

void ClusterIndex::renew_node(const Cluster& cluster, const NodeId& id) {
    const auto record = cluster.nodes.find(id);
    nodes_.count_change(id);
    drains_.put(id, record == cluster.nodes.end() ? std::nullopt : record->second.drain_deadline);
    const NodeView* before = nodes_.find(id);
    if (record == cluster.nodes.end()) {
        if (before == nullptr) return;
        search_.forget_ever(shapes_, before, nullptr);
        nodes_.erase(id);
        return;
    }
    NodeView view = nodes_.view_of(record->second);
    search_.forget_ever(shapes_, before, &view);
    const std::optional<std::size_t> place = nodes_.put(std::move(view));
    if (place && !reserved_.empty()) reserved_.renew_node(*place, nodes_, allocations_);
}

// ---- the whole index

std::optional<Time> ClusterIndex::next_wake(Time after) const {
    std::optional<Time> wake = times_.next_wake(after);
    for (const std::optional<Time>& first : {requests_.first(), drains_.first()})
        if (first && (!wake || *first < *wake)) wake = first;
    return wake;
}

void ClusterIndex::update(const Cluster& cluster, const Stale& stale) {
    for (const NodeId& id : stale.nodes) renew_node(cluster, id);
    for (const AttemptId id : stale.attempts) renew_attempt(cluster, id), renew_request(cluster, id);
    for (const RunId id : stale.runs) renew_run(cluster, id);
    for (const AttemptId id : stale.attempts) renew_end(cluster, id);
    for (const RunId id : stale.runs)
        for (auto at = live_attempts().lower_bound({id, 0}); at != live_attempts().end() && at->run == id; ++at)
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

// Runs that may change their size. They start with as many workers as fit, shrink when a node is lost (the next attempt
// takes what fits), and grow at a commit after there has been room for longer than scaling.grow_after. Growing takes
// only resources that no waiting run could use. `rtrain resize` sets the size of any run by hand.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/placement/room.hpp"
#include "scheduler/queue/preemption.hpp"
#include "scheduler/queue/yielding.hpp"

namespace rtrain {

namespace core {
namespace {

std::string counted(std::uint32_t workers) { return std::to_string(workers) + (workers == 1 ? " worker" : " workers"); }

Sums demand_of_all(const Run& run, std::uint32_t workers) {
    Sums total;
    for (std::uint32_t rank = 0; rank < workers; ++rank) add(total, demand_of(run, rank));
    return total;
}

// Returns the quotas as they would be if the attempt's own workers had made room for its run's next attempt.
Quotas quotas_without(Change& change, const Attempt& attempt) {
    const Cluster& cluster = change.seen();
    Quotas quotas(cluster);
    claim_lent(quotas, change);
    const Run& run = cluster.runs.at(attempt.id.run);
    const Sums held = allocated_to(cluster, attempt);
    quotas.uncount(run.spec.queue, held);
    quotas.uncount_user(run, held);
    return quotas;
}

GangRequest wanted_gang(const Run& run, std::uint32_t workers) {
    GangRequest gang = gang_of(run, workers);
    gang.nodes_avoided.insert(gang.nodes_avoided.end(), run.nodes_avoided.begin(), run.nodes_avoided.end());
    return gang;
}

void give_back_yielding(const Cluster& cluster, Outlook& outlook) {
    for (const AttemptId id : yielding_attempts(cluster)) outlook.give_back(cluster.attempts.at(id));
}

// Returns the nodes with the amounts that no waiting run needs, and with the seats that the run itself holds.
std::vector<NodeView> room_for(const Unwanted& open, const Run& run, const Attempt& attempt) {
    Outlook without = open.outlook;
    without.give_back(attempt);
    std::vector<NodeView> nodes = std::move(without).nodes(), own;
    for (NodeView& node : nodes) {
        if (!open.wanted.contains(node.id) || !on_node(attempt, node.id)) continue;
        node.free = {};
        node.gpus_free.assign(node.gpus_free.size(), Amount{});
        own.push_back(node);
    }
    std::erase_if(nodes, [&](const NodeView& node) { return open.wanted.contains(node.id); });
    give_back(own, run, attempt);
    nodes.insert(nodes.end(), own.begin(), own.end());
    std::sort(nodes.begin(), nodes.end(), [](const NodeView& a, const NodeView& b) { return a.id < b.id; });
    return nodes;
}

// Returns the seats that the run could have with more workers; none if there is no room for more.
Seats could_have(const Unwanted& open, const Run& run, const Attempt& attempt, const MayHave& may_have) {
    const auto now = static_cast<std::uint32_t>(attempt.workers.size());
    const auto allowed = [&](std::uint32_t workers) { return may_have(run, workers - now); };
    Sized sized = place_largest(room_for(open, run, attempt), wanted_gang(run, workers_max(run)), now, allowed);
    const bool more = sized.answer.verdict == Verdict::feasible_now && sized.workers > now;
    return more ? std::move(sized.answer.seats) : Seats{};
}

// Returns true if a waiting run of higher priority would be placed before the run once its attempt has stopped.
bool would_lose_seats(Change& change, const Attempt& attempt) {
    const Run& run = change.seen().runs.at(attempt.id.run);
    ClusterIndex& index = change.index();
    if (index.waiting().empty() || index.waiting().begin()->first.yields ||
        index.waiting().begin()->first.priority <= run.spec.priority)
        return false;
    Quotas now(change.seen());
    claim_lent(now, change);
    const Quotas then = quotas_without(change, attempt);
    const auto could_use_one = [&](const GangRequest& gang) {
        return std::any_of(attempt.workers.begin(), attempt.workers.end(), [&](const Worker& worker) {
            const NodeView* node = index.node(worker.seat.node);
            return node != nullptr && node->state == NodeState::ready && could_use(*node, gang);
        });
    };
    for (const auto& [line, batches] : index.waiting()) {
        if (line.yields || line.priority <= run.spec.priority) break;  // higher priorities come first
        for (const auto& [number, batch] : batches) {
            const Shape& shape = index.shape(number);
            if (shape.total.empty() || !index.ever(number) || then.refuses(line.queue, shape.total) ||
                then.limit_keeps_out(line, shape.total))
                continue;
            if (now.refuses(line.queue, shape.total) || could_use_one(shape.gang)) return true;
        }
    }
    return false;
}

bool may_grow(const Run& run, const Attempt* attempt) {
    return run.spec.elastic && run.state == RunState::running && run.stop_by.empty() && attempt != nullptr &&
           attempt->state == AttemptState::running && attempt->workers.size() < workers_max(run);
}

void grow(Change& change, RunId id, const Attempt& attempt, std::uint32_t workers) {
    const auto now = static_cast<std::uint32_t>(attempt.workers.size());
    CheckpointRequest request{.reason = RequestReason::resize,
                              .why = reasons::RoomToGrow{.workers = workers, .instead_of = now},
                              .workers = workers};
    if (const auto within = change.seen().runs.at(id).resize_within) request.deadline = change.now() + *within;
    request_checkpoint(change, attempt.id, std::move(request));
    change.edit(id).grow_since.reset();
}

// Ends the yielding runs that stand in the way of the growth. Returns true if some of them still hold their seats.
bool growth_waits(Change& change, const Run& run, const Attempt& attempt, const Seats& seats, YieldedRoom& yielded) {
    const SeatsWanted wanted{.run = run,
                             .gang = wanted_gang(run, static_cast<std::uint32_t>(seats.size())),
                             .who = {.run = run.id, .user = &run.user, .has_attempt = true},
                             .own = &attempt};
    const bool all_free = yielded.are_free_now(wanted, seats);
    for (const RunId victim : yielded.claim(wanted, seats)) end_for(change, victim, run);
    return !all_free;
}

// `open` and `may_have` count yielding runs as ended.
void consider_growing(Change& change, RunId id, const Unwanted& open, const MayHave& may_have, YieldedRoom* yielded,
                      std::set<NodeId>& counted_on) {
    const Run& run = change.seen().runs.at(id);
    const Attempt* attempt = live_attempt(change.seen(), id);
    const bool may = may_grow(run, attempt) && !request_pending(*attempt) && !would_lose_seats(change, *attempt);
    const Seats seats = may ? could_have(open, run, *attempt, may_have) : Seats{};
    const auto workers = static_cast<std::uint32_t>(seats.size());
    if (!may || workers <= attempt->workers.size()) {
        if (run.grow_since) change.edit(id).grow_since.reset();
        return;
    }
    for (const Seat& seat : seats) counted_on.insert(seat.node);
    if (!run.grow_since) change.edit(id).grow_since = change.now();
    if (*run.grow_since + run.spec.elastic->grow_after > change.now()) return;
    if (yielded != nullptr && growth_waits(change, run, *attempt, seats, *yielded)) return;
    grow(change, id, *attempt, workers);
}

// Returns the nodes of runs that are about to have more workers: at their next commit, or once their attempt has ended.
std::set<NodeId> nodes_of_resizes(Change& change) {
    std::set<NodeId> nodes;
    for (const AttemptId id : change.seen().index.live_attempts()) {
        const Attempt& attempt = change.seen().attempts.at(id);
        const bool resizes = attempt.request && attempt.request->reason == RequestReason::resize &&
                             attempt.request->workers > attempt.workers.size() &&
                             (attempt.state == AttemptState::running || attempt.state == AttemptState::stopping);
        if (!resizes) continue;
        const Run& run = change.seen().runs.at(id.run);
        std::vector<NodeView> then = nodes_now(change);
        give_back(then, run, attempt);
        for (const Seat& seat : place_largest(then, wanted_gang(run, attempt.request->workers), 1).answer.seats)
            nodes.insert(seat.node);
    }
    return nodes;
}

bool alike(const GangRequest& gang) {
    return std::all_of(gang.bundles.begin(), gang.bundles.end(),
                       [&](const Bundle& bundle) { return bundle == gang.bundles.front(); });
}

std::optional<Error> no_resize(const Run& run, std::uint32_t workers) {
    const std::string next = "rtrain describe " + run.name;
    if (terminal(run.state) || run.state == RunState::stopping || !run.stop_by.empty())
        return Error{ErrorCode::conflict,
                     "run " + run.name + " is " + to_text(run.state) +
                         (run.stop_by.empty() || terminal(run.state) ? "" : ", stopped by " + run.stop_by) +
                         ": its size cannot be changed any more",
                     next};
    if (!run.spec.elastic && !alike(run.spec.gang))
        return Error{ErrorCode::conflict, "the workers of run " + run.name + " are unlike each other: it has one size",
                     next};
    if (!run.spec.elastic) return std::nullopt;
    const auto most = static_cast<std::uint32_t>(run.spec.gang.bundles.size());
    if (workers < run.spec.elastic->workers_min || workers > most)
        return Error{ErrorCode::conflict,
                     counted(workers) + ": scaling.workers of run " + run.name + " is " +
                         std::to_string(run.spec.elastic->workers_min) + ".." + std::to_string(most),
                     "choose a number in that range"};
    return std::nullopt;
}

// Returns the run's gang with `workers` workers: the first bundles of its spec. Further bundles are copies of the
// first.
GangRequest gang_with(const Run& run, std::uint32_t workers) {
    GangRequest gang = gang_of(run, workers);
    gang.bundles.resize(workers, run.spec.gang.bundles.front());
    return gang;
}

std::string reasons_after_colon(const PlacementAnswer& why) {
    std::string text;
    for (std::size_t i = 0; i < why.reasons.size() && i < 3; ++i)
        text += (i == 0 ? ": " : "; ") + (why.reasons[i].node.value.empty() ? "" : why.reasons[i].node.value + ": ") +
                why.reasons[i].text;
    return text;
}

std::optional<Error> beyond_quota(const Quotas& quotas, const Run& run, std::uint32_t workers,
                                  const std::string& meanwhile) {
    const auto over = quotas.refuses(run.spec.queue, demand_of_all(run, workers), {.user = &run.user});
    if (!over) return std::nullopt;
    const std::string why = over->claimed || over->of_user
                                ? to_text(reason_of(*over))
                                : "of the quota of queue \"" + over->queue + "\", " + to_text(over->quota) + " " +
                                      over->resource + ", others hold " + to_text(over->in_use) +
                                      ", and it would need " + to_text(over->requested);
    return Error{ErrorCode::unplaceable,
                 "a quota keeps run " + run.name + " from " + counted(workers) + " " + meanwhile + ": " + why,
                 "ask for fewer workers; rtrain queue shows what the queues hold"};
}

// A run of fixed size with workers is not stopped for a size that has no room, or that its quota forbids.
std::optional<Error> no_room(Change& change, const Run& run, const Attempt& attempt, std::uint32_t workers) {
    const GangRequest gang = gang_with(run, workers);
    nodes_now(change);
    Outlook outlook(change.seen(), every_reservation);
    give_back_yielding(change.seen(), outlook);
    std::vector<NodeView> nodes = std::move(outlook).nodes();
    give_back(nodes, run, attempt);
    const std::string meanwhile = "now, it goes on with " + std::to_string(attempt.workers.size());
    if (place(nodes, gang).verdict == Verdict::feasible_now) {
        if (auto over = beyond_quota(quotas_without(change, attempt), run, workers, meanwhile)) return over;
        if (place(nodes_left_to(change, attempt, any_priority), gang).verdict == Verdict::feasible_now)
            return std::nullopt;
        return Error{
            ErrorCode::unplaceable,
            "runs that wait could use the room for " + counted(workers) + " of run " + run.name + " " + meanwhile,
            "ask again when they have started; rtrain queue lists them"};
    }
    const Quotas quotas = quotas_without(change, attempt);
    const PlacementAnswer why = placing::explain_briefly(nodes, gang, quota_room(quotas, run.spec.queue, {}));
    return Error{
        ErrorCode::unplaceable,
        "there is no room for " + counted(workers) + " of run " + run.name + " " + meanwhile + reasons_after_colon(why),
        why.nearest_change.empty() ? "rtrain queue and rtrain nodes show who holds what" : why.nearest_change};
}

// A run without workers would wait for ever in a size that the present nodes could never hold. A mistyped number would
// then end a run that has trained.
std::optional<Error> never_room(Change& change, const Run& run, std::uint32_t workers) {
    const GangRequest gang = gang_with(run, workers);
    const std::vector<NodeView>& nodes = nodes_now(change);
    if (place(nodes, gang).verdict != Verdict::infeasible)
        return beyond_quota(quotas_unused(change.seen()), run, workers,
                            "for ever, it still wants " + std::to_string(workers_max(run)));
    const Quotas quotas(change.seen());
    const PlacementAnswer why = placing::explain_briefly(nodes, gang, quota_room(quotas, run.spec.queue, {}));
    return Error{ErrorCode::unplaceable,
                 "no present nodes could ever hold " + counted(workers) + " of run " + run.name + ", it still wants " +
                     std::to_string(workers_max(run)) + reasons_after_colon(why),
                 why.nearest_change.empty() ? "rtrain nodes shows what there is; ask again when nodes have joined"
                                            : why.nearest_change};
}

void take_size(Change& change, RunId id, std::uint32_t workers) {
    Run& run = change.edit(id);
    run.workers_asked = workers;
    auto& bundles = run.spec.gang.bundles;
    if (workers > bundles.size()) bundles.resize(workers, bundles.front());
}

// The size is given up: its request is withdrawn.
void drop_resize(Change& change, const Attempt& attempt) {
    if (!request_pending(attempt) || attempt.request->reason != RequestReason::resize) return;
    // If a preemptor counted on the freed resources, a scheduling cycle must look for others.
    if (attempt.request->preemptor.value != 0) change.look_for_room();
    change.edit(attempt.id).request.reset();
}

void resize_live(Change& change, const RunResizeAsked& event, const Attempt& attempt) {
    const Run& run = change.seen().runs.at(event.run);
    const auto now = static_cast<std::uint32_t>(attempt.workers.size());
    drop_resize(change, attempt);
    if (event.workers == now) {
        change.edit(event.run).resize_within.reset();
        return;
    }
    if (event.workers > now && run.spec.elastic) {  // an elastic run grows as soon as there is room
        change.edit(event.run).grow_since = Time{change.now().ms - run.spec.elastic->grow_after.ms};
        return change.look_for_room();
    }
    CheckpointRequest request{
        .reason = RequestReason::resize,
        .why = reasons::ResizeRequested{.user = event.by, .workers = event.workers, .instead_of = now},
        .workers = event.workers};
    if (event.deadline) request.deadline = change.now() + *event.deadline;
    if (attempt.state == AttemptState::running) return request_checkpoint(change, attempt.id, std::move(request));
    request.asked = change.now();  // Nothing has been trained yet.
    change.edit(attempt.id).request = std::move(request);
    end_for_request(change, attempt.id);
}

// Runs with reserved seats need nothing beyond these seats.
bool all_have_seats(const ClusterIndex& index, const WaitingBatch& batch) {
    return batch.by_age.size() <= limits::reservations_most &&
           std::all_of(batch.by_age.begin(), batch.by_age.end(),
                       [&](const Waiter& waiter) { return index.reserved().bit_of(waiter.id) != 0; });
}

}  // namespace

const std::vector<NodeView>& nodes_now(Change& change) {
    change.settle();
    return change.seen().index.nodes();
}

Unwanted unwanted_nodes(Change& change, const Quotas& quotas, std::int32_t priority) {
    change.settle();
    ClusterIndex& index = change.index();
    ReservationMask closed = 0;
    for (const RunId id : index.reserving())
        if (change.seen().runs.at(id).spec.priority >= priority) closed |= index.reserved().bit_of(id);
    Unwanted open{.outlook = Outlook(change.seen(), ~closed), .wanted = {}};
    for (const auto& [line, batches] : index.waiting()) {
        if (line.yields || line.priority < priority) break;  // higher priorities come first
        for (const auto& [number, batch] : batches) {
            const Shape& shape = index.shape(number);
            if (shape.total.empty() || !index.ever(number) || quotas.refuses(line.queue, shape.total) ||
                quotas.limit_keeps_out(line, shape.total) || all_have_seats(index, batch))
                continue;
            for (const NodeView& node : index.nodes())
                if (could_use(node, shape.gang)) open.wanted.insert(node.id);
        }
    }
    return open;
}

std::vector<NodeView> nodes_left_to(Change& change, const Attempt& attempt, std::int32_t priority) {
    change.settle();
    if (would_lose_seats(change, attempt)) return {};
    Quotas quotas(change.seen());
    claim_lent(quotas, change);
    const Run& run = change.seen().runs.at(attempt.id.run);
    Unwanted open = unwanted_nodes(change, quotas, priority);
    // A run that waits for seats gets those of yielding runs. An elastic one starts smaller instead.
    if (!run.spec.elastic && !yields(run)) give_back_yielding(change.seen(), open.outlook);
    return room_for(open, run, attempt);
}

std::set<NodeId> grow_elastic(Change& change, const Unwanted& open, const MayHave& may_have, YieldedRoom* yielded) {
    Unwanted without_yielding = open;
    give_back_yielding(change.seen(), without_yielding.outlook);
    std::set<NodeId> counted_on;
    const std::set<RunId> ids = change.seen().index.elastic();
    for (const RunId id : ids) consider_growing(change, id, without_yielding, may_have, yielded, counted_on);
    if (yielded != nullptr) counted_on.merge(nodes_of_resizes(change));
    return counted_on;
}

bool some_may_grow(const Cluster& cluster) {
    const auto& ids = cluster.index.elastic();
    return std::any_of(ids.begin(), ids.end(), [&](RunId id) {
        const Run& run = cluster.runs.at(id);
        return run.grow_since || may_grow(run, live_attempt(cluster, id));
    });
}

// At the commit or the deadline the room may be gone, or a waiting run may need it. Then the run keeps its size, and
// the checkpoint is still useful.
bool still_resizes(Change& change, const Attempt& attempt) {
    const Run& run = change.seen().runs.at(attempt.id.run);
    if (attempt.request->workers <= attempt.workers.size()) return true;
    const std::vector<NodeView> nodes = nodes_left_to(change, attempt, any_priority);
    const auto now = static_cast<std::uint32_t>(attempt.workers.size());
    const std::uint32_t least = std::min(run.spec.elastic ? now + 1 : attempt.request->workers, workers_max(run));
    const auto over =
        quotas_without(change, attempt).refuses(run.spec.queue, demand_of_all(run, least), {.user = &run.user});
    const Sized sized = place_largest(nodes, wanted_gang(run, workers_max(run)), least);
    if (!over && sized.answer.verdict == Verdict::feasible_now) return true;
    change.note(notes::size_unchanged(run.name, now, attempt.request->workers, over ? reason_of(*over) : Reason{}));
    if (!run.spec.elastic) change.edit(attempt.id.run).workers_asked = now;
    change.edit(attempt.id).request.reset();
    return false;
}

void on(Change& change, const RunResizeAsked& event) {
    const auto entry = change.seen().runs.find(event.run);
    if (entry == change.seen().runs.end()) return change.refuse(no_such_run(change.seen(), event.run));
    const Run& run = entry->second;
    if (auto none = no_resize(run, event.workers)) return change.refuse(*std::move(none));
    const Attempt* attempt = live_attempt(change.seen(), event.run);
    const bool works = attempt != nullptr && attempt->state != AttemptState::stopping;
    std::optional<Error> error;
    if (!run.spec.elastic && works && event.workers > attempt->workers.size())
        error = no_room(change, run, *attempt, event.workers);
    else if (!run.spec.elastic && !works && event.workers > workers_max(run))
        error = never_room(change, run, event.workers);
    if (error) return change.refuse(*std::move(error));
    take_size(change, event.run, event.workers);
    change.edit(event.run).resize_within = event.deadline;
    change.about(event.run);
    change.note(notes::size_requested(run.name, event.workers, event.by));
    if (attempt == nullptr)
        change.look_for_room();
    else if (attempt->state != AttemptState::stopping)
        resize_live(change, event, *attempt);
}

}  // namespace core
}  // namespace rtrain

// A scheduling cycle: EASY backfill. Runs are placed in their order; the first that finds no room reserves the nodes on
// which it will start soonest, and those behind it may use these only if they have ended by then. One run of each kind
// of node reserves: two that could never use the same nodes do not stand behind each other. So does the oldest gang of
// each queue once it has waited long. See docs/queues.md.
#include "scheduler/cycle/scheduling_cycle.hpp"

#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/placement/room.hpp"
#include "scheduler/queue/backfill.hpp"
#include "scheduler/queue/order.hpp"
#include "scheduler/queue/preemption.hpp"

namespace rtrain::core {

namespace {

bool is_quota_reason(const Reason& reason) {
    return reason.is<reasons::QuotaFull>() || reason.is<reasons::QuotaReclaimed>();
}

Sums demand_of_first(const Run& run, std::size_t workers) {
    Sums total;
    for (std::size_t rank = 0; rank < workers; ++rank) add(total, demand_of(run, rank));
    return total;
}

struct ActiveReservation {  // that is in force in this cycle
    RunId run;
    std::uint32_t shape = 0;
    Reservation at;
    ReservationMask bit = 0;
    Claim claim = Claim::none;
};

class Cycle {
  public:
    explicit Cycle(Change& change) : change_(change), index_(change.index()), quotas_(change.seen()) {}
    void run();

  private:
    enum class Next { on, skip };  // after a run: its shape goes on, or need not be tried again
    Next consider(const Candidate& candidate);
    Next blocked(const Candidate& candidate);
    std::optional<Next> refused_by_quota(const Candidate& candidate, const Run& run);
    bool preempt_within_quota(const Candidate& candidate, const Run& run);
    bool shorter_may_borrow(const Candidate& candidate, const OverQuota& over) const;
    std::size_t passed_by(std::optional<Duration> limit) const;
    bool passes(const ActiveReservation& reservation, std::optional<Duration> limit) const;
    ReservationMask open_to(std::optional<Duration> limit) const;
    bool some_may_pass(const Candidate& candidate);
    bool start(const Candidate& candidate, const Run& run, ReservationMask open);
    bool same_kind(std::uint32_t a, std::uint32_t b) const;
    bool found_another_node(const Run& run, const GangRequest& gang) const;
    bool still_valid(const Run& run, const GangRequest& gang) const;
    void make_reservation(const Candidate& candidate, Time not_before);
    void renew(const Candidate& candidate, Reservation& at, Time not_before);
    ReservationMask open_for_reservation(const Candidate& candidate) const;
    std::size_t heads() const;
    void give_reasons();
    void give_reason(RunId id, const Reason& reason);
    void within_quota(const Candidate& candidate);
    std::set<RunId> outdated_reasons();
    Reason reason_to_wait(const Run& run, std::uint32_t shape);
    void release_other_reservations();
    PlacementAnswer grown(const Run& run, PlacementAnswer smallest, ReservationMask open);
    void grow();

    Change& change_;
    ClusterIndex& index_;
    Quotas quotas_;
    std::set<RunId> quota_reserved_;  // kept out by a quota that others are about to leave
    std::vector<ActiveReservation> reservations_;
    std::set<std::uint32_t> full_;                // shapes that found no room on any node
    std::map<std::uint32_t, Reason> never_fits_;  // what runs of a shape are told
    std::map<std::uint32_t, std::size_t> too_long_;
    std::map<std::uint32_t, std::size_t> refused_;  // shapes behind reservations: so many that it passes did not help
};

void Cycle::give_reason(RunId id, const Reason& reason) {
    if (change_.seen().runs.at(id).reason != reason) change_.edit(id).reason = reason;
}

// How many reservations leave a run alone that takes so long: it is over before they begin. They nest: who passes one
// passes all that begin later.
std::size_t Cycle::passed_by(std::optional<Duration> limit) const {
    return static_cast<std::size_t>(
        std::count_if(reservations_.begin(), reservations_.end(),
                      [&](const ActiveReservation& reservation) { return passes(reservation, limit); }));
}

bool Cycle::passes(const ActiveReservation& reservation, std::optional<Duration> limit) const {
    return limit && reservation.at.from.ms != 0 && change_.now() + *limit <= reservation.at.from;
}

// All reservations but those that would be kept waiting by a run that takes so long.
ReservationMask Cycle::open_to(std::optional<Duration> limit) const {
    ReservationMask open = every_reservation;
    for (const ActiveReservation& reservation : reservations_)
        if (!passes(reservation, limit)) open &= ~reservation.bit;
    return open;
}

std::optional<Cycle::Next> Cycle::refused_by_quota(const Candidate& candidate, const Run& run) {
    const auto over =
        quotas_.refuses(candidate.line->queue, index_.shape(candidate.shape).total, borrower(run, change_.now()));
    if (!over) return std::nullopt;
    if (run.state == RunState::queued) give_reason(run.id, reason_of(*over));
    if (run.retry_at > change_.now()) return Next::skip;
    const bool may = over->lent() || rules_of(change_.seen().queues, candidate.line->queue).preempt;
    if (may && preempt_within_quota(candidate, run)) return Next::on;
    return shorter_may_borrow(candidate, *over) && ++too_long_[candidate.shape] < limits::too_long_most ? Next::on
                                                                                                        : Next::skip;
}

// What is kept back for a reservation may be lent to who has ended by then: the shortest of the same shape?
bool Cycle::shorter_may_borrow(const Candidate& candidate, const OverQuota& over) const {
    if (!over.claimed) return false;
    const Duration shortest = index_.waiting().at(*candidate.line).at(candidate.shape).by_length.begin()->first;
    if (shortest == for_ever) return false;
    const Borrower who{.over_by = change_.now() + shortest};
    return !quotas_.refuses(candidate.line->queue, index_.shape(candidate.shape).total, who);
}

// Lower priorities are preempted within a quota too, and borrowers return what was lent. What they free is reserved for
// it, in the quota and on nodes: else those who go first would have it again before the last has gone. Nobody goes for
// nodes that are kept for others.
bool Cycle::preempt_within_quota(const Candidate& candidate, const Run& run) {
    if (index_.shape(candidate.shape).gang.driver || heads() >= limits::heads_most ||
        reservations_.size() >= limits::reservations_most)
        return false;
    const auto room = request_preemption(change_, quotas_, run.id, open_to(run.spec.wall_time_limit));
    if (!room) return false;
    if (room->requested_now) change_.settle();
    if (room->requested_now && !run.nodes_reserved.empty()) change_.edit(candidate.run).nodes_reserved.clear();
    make_reservation(candidate, room->by);
    quotas_.starts(candidate.run);  // counted as reserved now
    quotas_.reserve(candidate.line->queue, index_.shape(candidate.shape).total);
    quota_reserved_.insert(candidate.run);
    return true;
}

// Could both use one of the nodes? Gangs that ask alike of a node could, without looking at any.
bool Cycle::same_kind(std::uint32_t a, std::uint32_t b) const {
    const GangRequest &first = index_.shape(a).gang, &second = index_.shape(b).gang;
    const auto needs_gpu = [](const GangRequest& gang) {
        return amount_of(gang.bundles.front().demand, gpu_key).ticks > 0;
    };
    const bool alike = first.nodes_only == second.nodes_only && first.topology_label == second.topology_label &&
                       first.bundles.front().selector == second.bundles.front().selector &&
                       needs_gpu(first) == needs_gpu(second);
    return alike || std::any_of(index_.nodes().begin(), index_.nodes().end(), [&](const NodeView& node) {
               return could_use(node, first) && could_use(node, second);
           });
}

// All reservations but those of runs of this priority, or a higher one.
ReservationMask Cycle::open_for_reservation(const Candidate& candidate) const {
    ReservationMask open = open_to({});
    for (const RunId id : index_.reserving())
        if (id != candidate.run && index_.line_of(id).priority >= candidate.line->priority)
            open &= ~index_.reserved().bit_of(id);
    return open;
}

// Has enough been given back that it could begin sooner? Not for every small run that ends.
bool worth_a_look(const Sums& given_back, const Sums& total) {
    return std::all_of(total.begin(), total.end(), [&](const auto& entry) {
        return entry.second.ticks <= amount_of(given_back, entry.first).ticks * limits::looks_for_a_part_of;
    });
}

// Made anew, or to begin sooner: runs end before their limits, and the nodes that are free then may be others.
void Cycle::renew(const Candidate& candidate, Reservation& at, Time not_before) {
    const bool valid = !at.nodes.empty() && at.from > change_.now() && !change_.nodes_have_changed();
    const auto sooner_than = valid ? std::optional(at.from) : std::nullopt;
    Reservation next =
        reserve(change_.seen(), index_, candidate.shape, change_.now(), open_for_reservation(candidate), sooner_than);
    if (next.nodes.empty() && !valid)
        next = reserve(change_.seen(), index_, candidate.shape, change_.now(), open_to({}));
    if (next.from.ms != 0) next.from = std::max(next.from, not_before);
    const bool sooner = next.from.ms != 0 && next.from < at.from;
    if (valid && !sooner) return;
    at = std::move(next);
    const Run& run = change_.seen().runs.at(candidate.run);
    if (run.nodes_reserved == at.nodes && run.reserved_from == at.from) return;
    Run& record = change_.edit(candidate.run);
    record.nodes_reserved = at.nodes;
    record.reserved_from = at.from;
}

// A node that it has not reserved was given back, and takes a part of the gang now.
bool Cycle::found_another_node(const Run& run, const GangRequest& gang) const {
    const auto& nodes = change_.given_back_on();
    return std::any_of(nodes.begin(), nodes.end(), [&](const NodeId& id) {
        if (std::binary_search(run.nodes_reserved.begin(), run.nodes_reserved.end(), id)) return false;
        const NodeView* node = index_.node(id);
        return node != nullptr && placing::takes_one(*node, gang, node->free, node->gpus_free);
    });
}

// A reservation is kept as long as it has not passed. One whose time nobody knows is made anew when another node was
// given back, which it takes before who waits behind it, and by no other event: it looks at all that runs.
bool Cycle::still_valid(const Run& run, const GangRequest& gang) const {
    if (run.nodes_reserved.empty() || index_.reserved().bit_of(run.id) == 0 || change_.nodes_have_changed())
        return false;
    return run.reserved_from.ms == 0 ? !found_another_node(run, gang) : run.reserved_from > change_.now();
}

// The time of a reservation is reserved, and moves only to be sooner.
void Cycle::make_reservation(const Candidate& candidate, Time not_before) {
    const Shape& shape = index_.shape(candidate.shape);
    if (reservations_.size() >= limits::reservations_most || shape.gang.driver || shape.total.empty()) return;
    const Run& run = change_.seen().runs.at(candidate.run);
    ReservationMask bit = index_.reserved().bit_of(candidate.run);
    Reservation at{.nodes = {}, .from = run.reserved_from};
    const bool unknown = run.reserved_from.ms == 0;
    if (!still_valid(run, shape.gang) || (!unknown && worth_a_look(change_.given_back(), shape.total))) {
        at.nodes = run.nodes_reserved;
        renew(candidate, at, not_before);
        if (at.nodes.empty()) return;
        bit = index_.reserve_for(candidate.run, at.nodes);
    }
    reservations_.push_back(
        {.run = candidate.run, .shape = candidate.shape, .at = std::move(at), .bit = bit, .claim = candidate.claim});
    refused_.clear();
}

std::size_t Cycle::heads() const {
    return static_cast<std::size_t>(
        std::count_if(reservations_.begin(), reservations_.end(),
                      [](const ActiveReservation& reservation) { return reservation.claim != Claim::starving; }));
}

// Called for a candidate whose quota has room: it waits for nodes alone. Reasons that name a full quota are replaced,
// for the candidate and for the runs of its shape behind it.
void Cycle::within_quota(const Candidate& candidate) {
    const Run& first = change_.seen().runs.at(candidate.run);
    if (first.state == RunState::queued && !is_quota_reason(first.reason)) return;
    const WaitingBatch& batch = index_.waiting().at(*candidate.line).at(candidate.shape);
    Reason reason;  // the same for all of them
    for (auto at = batch.by_age.lower_bound({first.submitted, candidate.run}); at != batch.by_age.end(); ++at) {
        const Run& run = change_.seen().runs.at(at->id);
        if (run.state != RunState::queued) continue;
        if (!is_quota_reason(run.reason)) return;
        if (reason.none()) reason = reason_to_wait(run, candidate.shape);
        give_reason(run.id, reason);
    }
}

Cycle::Next Cycle::blocked(const Candidate& candidate) {
    within_quota(candidate);
    if (candidate.claim == Claim::none && heads() >= limits::heads_most) return Next::skip;
    if (!index_.ever(candidate.shape)) return Next::skip;
    // A gang without resources waits for others of its user to end: no reserved amount and no preemption helps it.
    if (index_.shape(candidate.shape).total.empty()) return Next::skip;
    const Run& run = change_.seen().runs.at(candidate.run);
    const bool behind = std::any_of(
        reservations_.begin(), reservations_.end(),
        [&](const ActiveReservation& reservation) { return same_kind(reservation.shape, candidate.shape); });
    if (candidate.claim == Claim::none && behind) return Next::skip;
    const auto room =
        behind ? std::nullopt : request_preemption(change_, quotas_, candidate.run);  // reckoned with every node
    if (room && room->requested_now) {
        change_.settle();
        if (!run.nodes_reserved.empty()) change_.edit(candidate.run).nodes_reserved.clear();
    }
    make_reservation(candidate, change_.now());
    return candidate.claim == Claim::none ? Next::skip : Next::on;
}

// An elastic run takes as many workers as fit and its quota allows.
PlacementAnswer Cycle::grown(const Run& run, PlacementAnswer smallest, ReservationMask open) {
    if (smallest.verdict != Verdict::feasible_now || workers_min(run) == workers_max(run)) return smallest;
    GangRequest largest = gang_of(run, workers_max(run));
    largest.nodes_avoided.insert(largest.nodes_avoided.end(), run.nodes_avoided.begin(), run.nodes_avoided.end());
    const auto allowed = [&](std::uint32_t workers) {
        return !quotas_.refuses(run.spec.queue, demand_of_first(run, workers), borrower(run, change_.now()));
    };
    Sized sized = place_largest(index_.nodes(open), largest, workers_min(run), allowed);
    return sized.answer.verdict == Verdict::feasible_now ? std::move(sized.answer) : std::move(smallest);
}

// Runs that may grow get what no waiting run could use, within their quota.
void Cycle::grow() {
    if (!some_may_grow(change_.seen())) return;
    const std::vector<NodeView> open = unwanted_nodes(change_, quotas_, any_priority);
    grow_elastic(change_, open, [&](const Run& run, std::uint32_t more) {
        return !quotas_.refuses(run.spec.queue, demand_of_first(run, more));
    });
}

Cycle::Next Cycle::consider(const Candidate& candidate) {
    const Run& run = change_.seen().runs.at(candidate.run);
    if (const auto next = refused_by_quota(candidate, run)) return *next;
    if (run.retry_at > change_.now()) {
        const bool keeps = run.retry_at - change_.now() <= limits::backoff_keeps_place && index_.ever(candidate.shape);
        if (keeps && heads() == 0) make_reservation(candidate, run.retry_at);
        return Next::on;
    }
    if (candidate.claim != Claim::none) {
        if (start(candidate, run, open_to(run.spec.wall_time_limit))) return Next::on;
        return blocked(candidate);
    }
    if (full_.contains(candidate.shape)) {
        within_quota(candidate);
        return Next::skip;
    }
    const Shape& shape = index_.shape(candidate.shape);
    const bool driver = shape.gang.driver || shape.total.empty();  // it takes nothing that is reserved
    const std::optional<Duration> limit = run.spec.wall_time_limit;
    const std::size_t passed = driver ? reservations_.size() : passed_by(limit);
    const auto refused = refused_.find(candidate.shape);
    if (driver || refused == refused_.end() || refused->second < passed) {
        if (start(candidate, run, driver ? every_reservation : open_to(limit))) return Next::on;
        refused_[candidate.shape] = passed;
    }
    if (passed == reservations_.size()) {
        full_.insert(candidate.shape);
        return blocked(candidate);
    }
    const Next next = blocked(candidate);
    return some_may_pass(candidate) && ++too_long_[candidate.shape] < limits::too_long_most ? Next::on : next;
}

bool Cycle::start(const Candidate& candidate, const Run& run, ReservationMask open) {
    if (!index_.room_for(candidate.shape, open)) return false;
    const PlacementAnswer answer = grown(run, index_.place(candidate.shape, open), open);
    if (answer.verdict != Verdict::feasible_now) return false;
    quotas_.starts(candidate.run);
    quotas_.count(candidate.line->queue, demand_of_first(run, answer.seats.size()));
    place_attempt(change_, candidate.run, answer.seats);
    change_.settle();
    return true;
}

// Behind a reservation. A shorter one of the same shape may still be over in time: is there room for the shortest?
bool Cycle::some_may_pass(const Candidate& candidate) {
    const auto batch = index_.waiting().at(*candidate.line).find(candidate.shape);
    const Duration shortest = batch->second.by_length.begin()->first;
    if (shortest == for_ever) return false;
    const std::size_t passed = passed_by(shortest);
    if (passed <= refused_[candidate.shape]) return false;
    const ReservationMask open = open_to(shortest);
    const bool room = index_.room_for(candidate.shape, open) && index_.fits(candidate.shape, open);
    if (!room) refused_[candidate.shape] = passed;
    return room;
}

Reason Cycle::reason_to_wait(const Run& run, std::uint32_t shape) {
    const auto over = quotas_.refuses(run.spec.queue, index_.shape(shape).total, borrower(run, change_.now()));
    if (over) return reason_of(*over);
    if (index_.ever(shape)) return reasons::NoRoom{};
    Reason& reason = never_fits_[shape];
    if (reason.none()) reason = reasons::NeverFits{placement_reasons(index_.nodes(), index_.shape(shape).gang, 3)};
    return reason;
}

// Nodes have come or gone, or other quotas are in force. Those of a shape were told alike.
std::set<RunId> Cycle::outdated_reasons() {
    std::set<RunId> outdated;
    for (const auto& [line, batches] : index_.waiting())
        for (const auto& [shape, batch] : batches) {
            const bool ever = index_.ever(shape);
            for (const Waiter& waiter : batch.by_age) {
                const Run& run = change_.seen().runs.at(waiter.id);
                if (run.state != RunState::queued) continue;
                const bool of_nodes = change_.nodes_have_changed() && (!ever || run.reason.is<reasons::NeverFits>());
                const bool of_queues =
                    change_.queues_have_changed() && (is_quota_reason(run.reason) || run.reason.is<reasons::NoRoom>());
                if (of_nodes || of_queues)
                    outdated.insert(run.id);
                else if (!change_.queues_have_changed())
                    break;
            }
        }
    return outdated;
}

// Every run is told once why it waits, and again when that may hold no more. (Behind whom it waits is for `explain`.)
void Cycle::give_reasons() {
    std::set<RunId> without_reason = index_.fresh();
    if (change_.nodes_have_changed() || change_.queues_have_changed()) without_reason.merge(outdated_reasons());
    for (const RunId id : without_reason)
        if (const Run& run = change_.seen().runs.at(id); run.state == RunState::queued && !quota_reserved_.contains(id))
            give_reason(id, reason_to_wait(run, index_.shape_of(id)));
}

// Those who reserved before and are no longer first.
void Cycle::release_other_reservations() {
    std::set<RunId> reserving;
    for (const ActiveReservation& reservation : reservations_) reserving.insert(reservation.run);
    for (const RunId id : std::set<RunId>(index_.reserving())) {
        if (reserving.contains(id)) continue;
        Run& run = change_.edit(id);
        run.nodes_reserved.clear();
        run.reserved_from = {};
    }
}

void Cycle::run() {
    claim_lent(quotas_, change_);
    Order order(index_, FairShare(change_.seen(), index_, change_.now()), change_.now());
    while (const auto candidate = order.next())
        if (consider(*candidate) == Next::skip) order.skip(*candidate);
    change_.settle();
    release_other_reservations();
    withdraw_requests(change_);
    change_.settle();
    grow();
    if (!index_.fresh().empty() || change_.nodes_have_changed() || change_.queues_have_changed()) give_reasons();
    change_.settle();
}

}  // namespace

void place_waiting(Change& change) {
    change.settle();
    Cycle(change).run();
}

}  // namespace rtrain::core

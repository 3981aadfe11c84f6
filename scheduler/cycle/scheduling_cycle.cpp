// A scheduling cycle: EASY backfill. Runs are placed in order. The first run without room reserves the seats on which
// it can start soonest. Later runs that would still run at that time may use only the rest of each node (room_beside).
// A run that lacks another resource than the earlier reservations reserves seats too, and so does the oldest gang of
// each queue after a long wait. See docs/queues.md.
#include "scheduler/cycle/scheduling_cycle.hpp"

#include <algorithm>

#include "scheduler/cycle/cycle.hpp"
#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/placement/room.hpp"
#include "scheduler/queue/backfill.hpp"
#include "scheduler/queue/order.hpp"
#include "scheduler/queue/preemption.hpp"
#include "scheduler/queue/reserved.hpp"

namespace rtrain::core {

namespace {

bool is_quota_reason(const Reason& reason) {
    return reason.is<reasons::QuotaFull>() || reason.is<reasons::QuotaReclaimed>() ||
           reason.is<reasons::QueueUserLimit>() || reason.is<reasons::BudgetUsed>();
}

Sums demand_of_first(const Run& run, std::size_t workers) {
    Sums total;
    for (std::size_t rank = 0; rank < workers; ++rank) add(total, demand_of(run, rank));
    return total;
}

}  // namespace

void Cycle::give_reason(RunId id, const Reason& reason) {
    if (change_.seen().runs.at(id).reason != reason) change_.edit(id).reason = reason;
}

// Returns all reservations except those that the run must leave alone. It must leave those of other runs with at least
// its priority alone, unless it ends before they begin.
ReservationMask Cycle::open_to(const Run& run, std::optional<Duration> limit) {
    ReservationMask open = every_reservation;
    for (const auto& [id, reservation] : seen_)
        if (id != run.id && reservation.priority >= run.spec.priority &&
            !passes(reservation.begin, run, limit, change_.now()))
            open &= ~reservation.bit;
    return open;
}

std::optional<Cycle::Next> Cycle::refused_by_quota(const Candidate& candidate, const Run& run) {
    const auto over =
        quotas_.refuses(candidate.line->queue, index_.shape(candidate.shape).total, borrower(run, change_.now()));
    if (!over) return std::nullopt;
    if (run.state == RunState::queued) give_reason(run.id, reason_of(*over));
    if (over->of_user) return Next::skip;    // a line with a limit for one user contains runs of one user only
    if (over->of_budget) return Next::skip;  // a budget that is used up refuses all runs of the line
    if (run.retry_at > change_.now()) return Next::skip;
    const bool may = over->lent() || rules_of(change_.seen().queues, candidate.line->queue).preempt;
    if (may && preempt_within_quota(candidate, run)) return Next::on;
    return shorter_may_borrow(candidate, *over) && ++too_long_[candidate.shape] < limits::too_long_most ? Next::on
                                                                                                        : Next::skip;
}

// Returns true if the shortest waiting run of this shape would end before the withheld quota is needed. Such a run may
// borrow the quota.
bool Cycle::shorter_may_borrow(const Candidate& candidate, const OverQuota& over) const {
    if (!over.claimed && !over.promised) return false;
    const Duration shortest = index_.waiting().at(*candidate.line).at(candidate.shape).by_length.begin()->first;
    if (shortest == for_ever) return false;
    const Borrower who{.over_by = change_.now() + shortest};
    return !quotas_.refuses(candidate.line->queue, index_.shape(candidate.shape).total, who);
}

// Preempts other runs for a candidate: runs of a lower priority whose queues allow it, and runs that have borrowed
// quota. The released quota and seats are reserved for the candidate, since the preempted runs would otherwise take
// them again. No run is preempted for nodes that are reserved for other runs. Returns true if the candidate now waits
// for preempted runs to end.
bool Cycle::preempt_within_quota(const Candidate& candidate, const Run& run) {
    if (index_.shape(candidate.shape).total.empty() || heads() >= limits::heads_most ||
        reservations_.size() >= limits::reservations_most)
        return false;
    if (starts_before_preemption(candidate) && quotas_.withholds(run)) return true;
    const auto room = request_preemption(change_, quotas_, run.id, open_to(run));
    if (!room) return false;
    if (room->requested_now) change_.settle();
    if (room->requested_now && !run.nodes_reserved.empty()) drop_reservation(change_.edit(candidate.run));
    make_reservation(candidate, room->by);
    quota_reserved_.insert(candidate.run);
    // the quota is withheld from the reserved time on
    if (run.reserved_from.ms != 0 && quotas_.withholds(run)) return true;
    quotas_.starts(candidate.run);  // the quota is reserved from now on
    quotas_.reserve(candidate.line->queue, index_.shape(candidate.shape).total);
    return true;
}

// Handles a candidate whose quota has room, so that it waits for nodes only. If the stored reason of the candidate, or
// of a later run of its shape, names a full quota, replaces it.
void Cycle::within_quota(const Candidate& candidate) {
    const Run& first = change_.seen().runs.at(candidate.run);
    if (first.state == RunState::queued && !is_quota_reason(first.reason)) return;
    const WaitingBatch& batch = index_.waiting().at(*candidate.line).at(candidate.shape);
    Reason reason;  // all these runs get the same reason
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
    // A gang without resources waits for its user's other runs to end. Neither a reservation nor a preemption helps it.
    if (index_.shape(candidate.shape).total.empty()) return Next::skip;
    const Run& run = change_.seen().runs.at(candidate.run);
    const bool behind = stands_behind(candidate);
    if (candidate.claim == Claim::none && behind) return Next::skip;
    const bool preempts = !behind && !starts_before_preemption(candidate);
    const auto room = !preempts ? std::nullopt : request_preemption(change_, quotas_, candidate.run, open_to(run));
    if (room && room->requested_now) {
        change_.settle();
        if (!run.nodes_reserved.empty()) drop_reservation(change_.edit(candidate.run));
    }
    if (!room && run.nodes_reserved.empty() && has_no_quota_later(candidate, run))
        return candidate.claim == Claim::none ? Next::skip : Next::on;
    make_reservation(candidate, change_.now());
    // The seats may overlap those of later reservations. The run starts now, since no further event may follow that
    // would start it.
    if (start_on_reserved_seats(candidate, run)) return Next::on;
    return candidate.claim == Claim::none ? Next::skip : Next::on;
}

// Returns a placement of an elastic run with as many workers as fit and as its quota allows.
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

// Lets elastic runs grow into resources that no waiting run could use, within their quota.
void Cycle::grow() {
    YieldedRoom* yielded = yielded_ ? &*yielded_ : nullptr;
    if (!some_may_grow(change_.seen()) && yielded == nullptr) return;
    const Unwanted open = unwanted_nodes(change_, quotas_, any_priority);
    const auto may_have = [&](const Run& run, std::uint32_t more) {
        const Quotas& quotas = yielded == nullptr ? quotas_ : yielded->quotas_without();
        return !quotas.refuses(run.spec.queue, demand_of_first(run, more), {.user = &run.user, .has_attempt = true});
    };
    growing_on_ = grow_elastic(change_, open, may_have, yielded);
}

Cycle::Next Cycle::consider(const Candidate& candidate) {
    const Run& run = change_.seen().runs.at(candidate.run);
    if (const auto next = refused_by_quota(candidate, run)) {
        const Sums& demand = index_.shape(candidate.shape).total;
        if (!quotas_.beyond_budget(run.spec.queue, demand, borrower(run, change_.now())))
            keep_reservation(candidate, run);
        return *next;
    }
    if (run.retry_at > change_.now()) {
        reserve_for_retry(candidate, run);
        return Next::on;
    }
    if (candidate.claim != Claim::none) {
        const ReservationMask open = open_to(run);
        if (start(candidate, run, open) || start_on_reserved_seats(candidate, run)) return Next::on;
        kept_out_ |= ~open;
        return blocked(candidate);
    }
    if (full_.contains(candidate.shape)) {
        within_quota(candidate);
        return Next::skip;
    }
    // the gang has no resources, so it takes nothing that is reserved
    const bool nothing = index_.shape(candidate.shape).total.empty();
    const ReservationMask open = nothing ? every_reservation : open_to(run);
    const auto refused = refused_.find(candidate.shape);
    if (nothing || refused == refused_.end() || (open & ~refused->second) != 0) {
        if (start(candidate, run, open)) return Next::on;
        refused_[candidate.shape] = open;
        kept_out_ |= ~open;
    }
    if (open == every_reservation) {
        full_.insert(candidate.shape);
        return blocked(candidate);
    }
    if (blocked(candidate) == Next::on) return Next::on;  // the candidate has started on its reserved seats
    return some_may_pass(candidate) && ++too_long_[candidate.shape] < limits::too_long_most ? Next::on : Next::skip;
}

bool Cycle::start(const Candidate& candidate, const Run& run, ReservationMask open) {
    if (!index_.room_for(candidate.shape, open)) return false;
    const PlacementAnswer answer = grown(run, index_.place(candidate.shape, open), open);
    if (answer.verdict != Verdict::feasible_now) return false;
    place_on(candidate, run, answer.seats);
    return true;
}

// Returns the reservations that the run must leave alone even on its own reserved seats: those with a known time. If
// the run's own time is unknown, also the reservations that precede it in this cycle.
ReservationMask Cycle::closed_to_own_seats(const Run& run) {
    const ReservationMask before = run.reserved_from.ms == 0 ? ~open_beside_active() : 0;
    return (promised_to_others(run) | before) & ~open_to(run);
}

// Starts the run on its reserved seats if its time has come and they are free. Later reservations do not matter.
bool Cycle::start_on_reserved_seats(const Candidate& candidate, const Run& run) {
    if (run.reserved_from > change_.now() ||
        !are_free(index_, run, index_.shape(candidate.shape).gang, closed_to_own_seats(run)))
        return false;
    std::erase_if(reservations_, [&](const ActiveReservation& own) { return own.run == candidate.run; });
    place_on(candidate, run, Seats(run.seats_reserved));
    return true;
}

void Cycle::place_on(const Candidate& candidate, const Run& run, const Seats& seats) {
    quotas_.starts(candidate.run);
    const Sums demand = demand_of_first(run, seats.size());
    quotas_.count(candidate.line->queue, demand);
    quotas_.count_user(run, demand);
    for (const Seat& seat : seats) taken_on_.insert(seat.node);
    place_attempt(change_, candidate.run, seats);
    seen_.erase(candidate.run);
    change_.settle();
    wait_for_passed({.run = candidate.run, .number = run.attempts});
}

// Updates the reservations that the newly placed attempt `passed`. If the attempt took seats of a reservation with an
// unknown time, that reservation now also waits for the attempt's end.
void Cycle::wait_for_passed(AttemptId passed) {
    for (const ActiveReservation& reservation : reservations_) {
        const Run& run = change_.seen().runs.at(reservation.run);
        const auto& held = index_.allocated_to(passed);
        const bool taken = run.reserved_from.ms == 0 && std::any_of(held.begin(), held.end(), [&](const auto& entry) {
                               return (index_.mask_of(index_.place_of(entry.first)) & reservation.bit) != 0 &&
                                      !will_be_free(index_, run, entry.first);
                           });
        if (!taken) continue;
        std::vector<AttemptId>& after = change_.edit(reservation.run).reserved_after;
        after.insert(std::upper_bound(after.begin(), after.end(), passed), passed);
        change_.settle();
        see(reservation.run);
    }
}

// Returns true if some later run of the candidate's shape may still be placed before the reservation: it ends in time,
// and has room.
bool Cycle::some_may_pass(const Candidate& candidate) {
    const bool no_time =
        std::none_of(seen_.begin(), seen_.end(), [](const auto& entry) { return entry.second.begin.from.ms != 0; });
    if (no_time) return false;
    const auto batch = index_.waiting().at(*candidate.line).find(candidate.shape);
    const Duration shortest = batch->second.by_length.begin()->first;
    if (shortest == for_ever) return false;
    const ReservationMask open = open_to(change_.seen().runs.at(candidate.run), shortest);
    if ((open & ~refused_[candidate.shape]) == 0) return false;
    const bool room = index_.room_for(candidate.shape, open) && index_.fits(candidate.shape, open);
    if (!room) refused_[candidate.shape] = open;
    return room;
}

// Places the runs of programs whose ends reservations wait for. Such a run can stand in the queue behind others of its
// shape that may not pass the reservation.
void Cycle::pass_with_programs() {
    std::set<std::string> programs;
    for (const auto& [id, reservation] : seen_)
        programs.insert(reservation.begin.programs.begin(), reservation.begin.programs.end());
    std::size_t looks = limits::too_long_most;
    for (const std::string& program : programs) {
        const std::set<Waiter> waiting = index_.waiting_of(program);
        for (const Waiter& waiter : waiting) {
            if (looks == 0) return;
            const Run& run = change_.seen().runs.at(waiter.id);
            if (run.retry_at > change_.now() || !index_.waits(waiter.id) || yields(run)) continue;
            const Candidate candidate{
                .line = &index_.line_of(waiter.id), .shape = index_.shape_of(waiter.id), .run = waiter.id};
            const ReservationMask open = open_to(run);
            const auto refused = refused_.find(candidate.shape);
            const bool tried =
                full_.contains(candidate.shape) || (refused != refused_.end() && (open & ~refused->second) == 0);
            const Sums& demand = index_.shape(candidate.shape).total;
            if (tried || quotas_.refuses(candidate.line->queue, demand, borrower(run, change_.now()))) continue;
            --looks;
            if (!start(candidate, run, open)) refused_[candidate.shape] = open;
        }
    }
}

Reason Cycle::reason_to_wait(const Run& run, std::uint32_t shape) {
    const auto over = quotas_.refuses(run.spec.queue, index_.shape(shape).total, borrower(run, change_.now()));
    if (over) return reason_of(*over);
    if (index_.ever(shape)) return reasons::NoRoom{};
    Reason& reason = never_fits_[shape];
    if (reason.none()) reason = reasons::NeverFits{placement_reasons(index_.nodes(), index_.shape(shape).gang, 3)};
    return reason;
}

// Returns the runs whose stored wait reason is out of date because nodes or quotas changed. All runs of one shape share
// a reason. While a node has not registered since the head's start, runs keep their earlier reason.
std::set<RunId> Cycle::outdated_reasons() {
    std::set<RunId> outdated;
    const bool nodes_changed = change_.nodes_have_changed() && !index_.awaits_nodes();
    for (const auto& [line, batches] : index_.waiting())
        for (const auto& [shape, batch] : batches) {
            const bool ever = index_.ever(shape);
            for (const Waiter& waiter : batch.by_age) {
                const Run& run = change_.seen().runs.at(waiter.id);
                if (run.state != RunState::queued) continue;
                const bool of_nodes = nodes_changed && (!ever || run.reason.is<reasons::NeverFits>());
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

// Stores the wait reason of each run that has none, and of each run whose reason may be out of date. `explain` computes
// which other runs it waits for.
void Cycle::give_reasons() {
    std::set<RunId> without_reason = index_.fresh();
    if (change_.nodes_have_changed() || change_.queues_have_changed()) without_reason.merge(outdated_reasons());
    for (const RunId id : without_reason)
        if (const Run& run = change_.seen().runs.at(id); run.state == RunState::queued && !quota_reserved_.contains(id))
            give_reason(id, reason_to_wait(run, index_.shape_of(id)));
}

// Drops the reservations of runs that this cycle has not renewed. Returns the dropped reservations.
ReservationMask Cycle::release_other_reservations() {
    ReservationMask given_up = 0;
    std::set<RunId> reserving;
    for (const ActiveReservation& reservation : reservations_) reserving.insert(reservation.run);
    for (const RunId id : std::set<RunId>(index_.reserving())) {
        if (reserving.contains(id)) continue;
        given_up |= index_.reserved().bit_of(id);
        drop_reservation(change_.edit(id));
        seen_.erase(id);
    }
    return given_up;
}

// Removes the candidate's old reservation if this cycle has not renewed it, so that later runs may use the seats.
void Cycle::forget_lapsed(const Candidate& candidate) {
    const auto seen = seen_.find(candidate.run);
    if (seen == seen_.end()) return;
    const bool active = std::any_of(reservations_.begin(), reservations_.end(),
                                    [&](const ActiveReservation& other) { return other.run == candidate.run; });
    if (active) return;
    seen_.erase(seen);
    refused_.clear();
}

bool Cycle::run() {
    for (const RunId id : index_.reserving()) see(id);
    claim_lent(quotas_, change_);
    Order order(index_, FairShare(change_.seen(), index_, change_.now()), change_.now());
    while (const auto candidate = order.next()) {
        if (candidate->line->yields) break;
        if (consider(*candidate) == Next::skip) order.skip(*candidate);
        forget_lapsed(*candidate);
    }
    pass_with_programs();
    change_.settle();
    const ReservationMask given_up = release_other_reservations();
    withdraw_requests(change_);
    change_.settle();
    return ((given_up | given_up_) & kept_out_) != 0;
}

void Cycle::finish() {
    end_yielding();
    grow();
    start_yielding();
    if (!index_.fresh().empty() || change_.nodes_have_changed() || change_.queues_have_changed()) give_reasons();
    change_.settle();
}

void place_waiting(Change& change) {
    change.settle();
    for (int left = limits::cycles_most;; --left) {
        Cycle cycle(change);
        if (cycle.run() && left > 1) continue;
        return cycle.finish();
    }
}

}  // namespace rtrain::core

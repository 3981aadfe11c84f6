// A scheduling cycle: EASY backfill. Runs are placed in their order; the first that finds no room reserves the seats on
// which it will start soonest. Runs behind it that are still there when it starts take what it leaves of each node: see
// room_beside. A run that lacks something else than the reservations before it reserves seats as well. So does the
// oldest gang of each queue once it has waited long. See docs/queues.md.
#include "scheduler/cycle/scheduling_cycle.hpp"

#include <algorithm>

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
    ReservationMask bit = 0;
    Claim claim = Claim::none;
    std::optional<std::vector<std::string>> lacks{};  // found out when somebody wants to know
};

// A reservation as those see it that are placed beside it.
struct SeenReservation {
    ReservationMask bit = 0;
    std::int32_t priority = 0;
    Begin begin;
};

class Cycle {
  public:
    explicit Cycle(Change& change) : change_(change), index_(change.index()), quotas_(change.seen()) {}
    // Returns whether a reservation that is given up has kept a run waiting, so that another cycle is due.
    bool run();
    void finish();  // after the last cycle

  private:
    enum class Next { on, skip };  // after a run: its shape goes on, or need not be tried again
    Next consider(const Candidate& candidate);
    Next blocked(const Candidate& candidate);
    std::optional<Next> refused_by_quota(const Candidate& candidate, const Run& run);
    bool preempt_within_quota(const Candidate& candidate, const Run& run);
    bool shorter_may_borrow(const Candidate& candidate, const OverQuota& over) const;
    ReservationMask open_to(const Run& run, std::optional<Duration> limit);
    ReservationMask open_to(const Run& run) { return open_to(run, time_left(change_.seen(), run, change_.now())); }
    bool some_may_pass(const Candidate& candidate);
    bool start(const Candidate& candidate, const Run& run, ReservationMask open);
    bool start_on_reserved_seats(const Candidate& candidate, const Run& run);
    ReservationMask closed_to_own_seats(const Run& run);
    void place_on(const Candidate& candidate, const Run& run, const Seats& seats);
    void wait_for_passed(AttemptId passed);
    bool stands_behind(const Candidate& candidate);
    bool found_another_node(const Run& run, const GangRequest& gang) const;
    bool still_valid(const Run& run, const GangRequest& gang) const;
    bool overtaken(const Run& run) const;
    void spare_ends(const Run& run);
    void make_reservation(const Candidate& candidate, Time not_before);
    bool renew(const Candidate& candidate, Time not_before);
    ReservationMask open_to_later(const Run& run) const;
    ReservationMask open_beside_active() const;
    ReservationMask promised_to_others(const Run& run) const;
    Reservation reserve_before_others(const Candidate& candidate);
    void see(RunId id);
    std::size_t heads() const;
    void give_reasons();
    void give_reason(RunId id, const Reason& reason);
    void within_quota(const Candidate& candidate);
    std::set<RunId> outdated_reasons();
    Reason reason_to_wait(const Run& run, std::uint32_t shape);
    ReservationMask release_other_reservations();
    void pass_with_programs();
    void forget_lapsed(const Candidate& candidate);
    PlacementAnswer grown(const Run& run, PlacementAnswer smallest, ReservationMask open);
    void grow();

    Change& change_;
    ClusterIndex& index_;
    Quotas quotas_;
    std::set<RunId> quota_reserved_;  // kept out by a quota that others are about to leave
    std::vector<ActiveReservation> reservations_;
    std::map<RunId, SeenReservation> seen_;       // those of earlier cycles and of this one
    ReservationMask given_up_ = 0;                // reservations for which this cycle has found no seats any more
    ReservationMask kept_out_ = 0;                // reservations that were closed to a run that found no room
    std::set<NodeId> taken_on_;                   // where this cycle has placed something
    std::set<std::uint32_t> full_;                // shapes that found no room on any node
    std::map<std::uint32_t, Reason> never_fits_;  // what runs of a shape are told
    std::map<std::uint32_t, std::size_t> too_long_;
    std::map<std::uint32_t, ReservationMask> refused_;  // shapes that found no room beside the others
};

void Cycle::give_reason(RunId id, const Reason& reason) {
    if (change_.seen().runs.at(id).reason != reason) change_.edit(id).reason = reason;
}

// All reservations but those of other runs, of this priority or a higher one, that the run must leave alone.
ReservationMask Cycle::open_to(const Run& run, std::optional<Duration> limit) {
    ReservationMask open = every_reservation;
    for (const auto& [id, reservation] : seen_)
        if (id != run.id && reservation.priority >= run.spec.priority &&
            !passes(reservation.begin, run, limit, change_.now()))
            open &= ~reservation.bit;
    return open;
}

// Records a reservation for the runs that are placed beside it. Reservations of runs that the cycle has not reached yet
// count as well, so that a promised time does not move for an older run.
void Cycle::see(RunId id) {
    const Run& run = change_.seen().runs.at(id);
    seen_.insert_or_assign(id, SeenReservation{.bit = index_.reserved().bit_of(id),
                                               .priority = run.spec.priority,
                                               .begin = begin_of(change_.seen(), run)});
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
    if (index_.shape(candidate.shape).total.empty() || heads() >= limits::heads_most ||
        reservations_.size() >= limits::reservations_most)
        return false;
    const auto room = request_preemption(change_, quotas_, run.id, open_to(run));
    if (!room) return false;
    if (room->requested_now) change_.settle();
    if (room->requested_now && !run.nodes_reserved.empty()) drop_reservation(change_.edit(candidate.run));
    make_reservation(candidate, room->by);
    quotas_.starts(candidate.run);  // counted as reserved now
    quotas_.reserve(candidate.line->queue, index_.shape(candidate.shape).total);
    quota_reserved_.insert(candidate.run);
    return true;
}

// A run that asks for all that a reservation lacks, on the same nodes, starts after it: it needs no reservation before.
bool Cycle::stands_behind(const Candidate& candidate) {
    const Sums& demand = index_.shape(candidate.shape).total;
    return std::any_of(reservations_.begin(), reservations_.end(), [&](ActiveReservation& reservation) {
        if (!reservation.lacks)
            reservation.lacks = lacking(index_, reservation.run, index_.shape(reservation.shape).total);
        return std::all_of(reservation.lacks->begin(), reservation.lacks->end(),
                           [&](const std::string& name) { return amount_of(demand, name).ticks > 0; }) &&
               same_kind(index_, reservation.shape, candidate.shape);
    });
}

// As open_to, for a run that starts later: who passes now may not pass then.
ReservationMask Cycle::open_to_later(const Run& run) const {
    ReservationMask open = every_reservation;
    for (const auto& [id, reservation] : seen_)
        if (id != run.id && reservation.priority >= run.spec.priority) open &= ~reservation.bit;
    return open;
}

ReservationMask Cycle::open_beside_active() const {
    ReservationMask open = every_reservation;
    for (const ActiveReservation& reservation : reservations_) open &= ~reservation.bit;
    return open;
}

// Returns the reservations of other runs, of this priority or a higher one, whose time is known.
ReservationMask Cycle::promised_to_others(const Run& run) const {
    ReservationMask promised = 0;
    for (const auto& [id, reservation] : seen_)
        if (reservation.begin.from.ms != 0) promised |= reservation.bit;
    return promised & ~open_to_later(run);
}

// Returns seats for a run that finds none beside the reservations of all others: beside those before it in this cycle,
// and beside the promised times if that is possible. Otherwise the run starts after the promised runs, and their ends
// are unknown.
Reservation Cycle::reserve_before_others(const Candidate& candidate) {
    const ReservationMask promised = promised_to_others(change_.seen().runs.at(candidate.run));
    const ReservationMask beside = open_beside_active();
    Reservation next = reserve(change_.seen(), index_, candidate.shape, change_.now(), beside & ~promised);
    if (!next.nodes.empty() || (beside & promised) == 0) return next;
    return reserve(change_.seen(), index_, candidate.shape, change_.now(), beside, {}, Promise::none);
}

// Makes the reservation anew, or lets it begin sooner: runs end before their limits, and other nodes may be free then.
// Returns whether there is a reservation.
bool Cycle::renew(const Candidate& candidate, Time not_before) {
    const Run& run = change_.seen().runs.at(candidate.run);
    const bool alike = run.seats_reserved.size() == index_.shape(candidate.shape).gang.bundles.size();
    const bool to_come = run.reserved_from > change_.now() || begins_now(change_.seen(), run, change_.now());
    const bool valid =
        alike && !run.nodes_reserved.empty() && to_come && (!change_.nodes_have_changed() || will_be_free(index_, run));
    const auto sooner_than = valid ? std::optional(run.reserved_from) : std::nullopt;
    Reservation next = reserve(change_.seen(), index_, candidate.shape, change_.now(), open_to_later(run), sooner_than);
    if (next.nodes.empty() && !valid) next = reserve_before_others(candidate);
    if (next.from.ms != 0) next.from = std::max(next.from, not_before);
    const bool sooner = next.from.ms != 0 && next.from < run.reserved_from;
    if (valid && !sooner) return true;
    const bool same = run.nodes_reserved == next.nodes && run.reserved_from == next.from &&
                      run.seats_reserved == next.seats && run.reserved_after == next.after;
    if (same) return !next.nodes.empty();
    if (next.nodes.empty()) given_up_ |= index_.reserved().bit_of(candidate.run);
    Run& record = change_.edit(candidate.run);
    record.nodes_reserved = std::move(next.nodes);
    record.reserved_from = next.from;
    record.seats_reserved = std::move(next.seats);
    record.reserved_after = std::move(next.after);
    return !record.nodes_reserved.empty();
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

// Returns true if the reservation waits for others than it expects: a run of higher priority has taken of its seats
// now, or what was given back on its nodes is not enough.
bool Cycle::overtaken(const Run& run) const {
    const auto& given_back = change_.given_back_on();
    return std::any_of(run.nodes_reserved.begin(), run.nodes_reserved.end(), [&](const NodeId& id) {
        return (taken_on_.contains(id) || given_back.contains(id)) && !will_be_free(index_, run, id);
    });
}

// A reservation is kept as long as it has not passed. One whose time nobody knows is made anew when another node was
// given back, which it takes before those who wait behind it, or when its seats were taken, and by no other event: it
// looks at all that runs. Those of earlier versions have no seats.
bool Cycle::still_valid(const Run& run, const GangRequest& gang) const {
    if (run.seats_reserved.size() != gang.bundles.size() || run.nodes_reserved.empty() ||
        index_.reserved().bit_of(run.id) == 0 || change_.nodes_have_changed())
        return false;
    if (run.reserved_from.ms != 0)
        return run.reserved_from > change_.now() || begins_now(change_.seen(), run, change_.now());
    return !found_another_node(run, gang) && !overtaken(run);
}

// Something was given back on the reserved nodes: the reservation waits no longer for attempts whose place it takes.
void Cycle::spare_ends(const Run& run) {
    const auto& given_back = change_.given_back_on();
    if (std::none_of(run.nodes_reserved.begin(), run.nodes_reserved.end(),
                     [&](const NodeId& id) { return given_back.contains(id); }))
        return;
    std::vector<AttemptId> needed = run.reserved_after;
    for (const AttemptId id : run.reserved_after) {
        if (index_.live_attempts().contains(id) && !free_without(index_, run, id)) continue;
        std::erase(needed, id);
        ReservedSeats seats = reserved_seats_of(run);
        seats.after = {needed.begin(), needed.end()};
        index_.reserve_for(run.id, std::move(seats));
    }
    if (needed != run.reserved_after) change_.edit(run.id).reserved_after = std::move(needed);
}

// The time of a reservation is reserved, and moves only to be sooner.
void Cycle::make_reservation(const Candidate& candidate, Time not_before) {
    const Shape& shape = index_.shape(candidate.shape);
    if (reservations_.size() >= limits::reservations_most || shape.total.empty()) return;
    const Run& run = change_.seen().runs.at(candidate.run);
    const bool unknown = run.reserved_from.ms == 0;
    if (!still_valid(run, shape.gang) || (!unknown && worth_a_look(change_.given_back(), shape.total))) {
        if (!renew(candidate, not_before)) return;
        index_.reserve_for(candidate.run, reserved_seats_of(run));
    } else if (unknown) {
        spare_ends(run);
    }
    see(candidate.run);
    reservations_.push_back({.run = candidate.run,
                             .shape = candidate.shape,
                             .bit = index_.reserved().bit_of(candidate.run),
                             .claim = candidate.claim});
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
    const bool behind = stands_behind(candidate);
    if (candidate.claim == Claim::none && behind) return Next::skip;
    const auto room = behind ? std::nullopt : request_preemption(change_, quotas_, candidate.run, open_to(run));
    if (room && room->requested_now) {
        change_.settle();
        if (!run.nodes_reserved.empty()) drop_reservation(change_.edit(candidate.run));
    }
    make_reservation(candidate, change_.now());
    if (start_on_reserved_seats(candidate, run)) return Next::on;  // of reservations behind it: no event may follow
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
    const Unwanted open = unwanted_nodes(change_, quotas_, any_priority);
    grow_elastic(change_, open, [&](const Run& run, std::uint32_t more) {
        return !quotas_.refuses(run.spec.queue, demand_of_first(run, more));
    });
}

Cycle::Next Cycle::consider(const Candidate& candidate) {
    const Run& run = change_.seen().runs.at(candidate.run);
    if (const auto next = refused_by_quota(candidate, run)) return *next;
    if (run.retry_at > change_.now()) {
        const bool keeps = run.retry_at - change_.now() <= limits::backoff_keeps_place && index_.ever(candidate.shape);
        if (keeps && (candidate.claim == Claim::reservation || heads() == 0)) make_reservation(candidate, run.retry_at);
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
    const bool nothing = index_.shape(candidate.shape).total.empty();  // takes no amount that is reserved
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
    if (blocked(candidate) == Next::on) return Next::on;  // it has started on its reserved seats
    return some_may_pass(candidate) && ++too_long_[candidate.shape] < limits::too_long_most ? Next::on : Next::skip;
}

bool Cycle::start(const Candidate& candidate, const Run& run, ReservationMask open) {
    if (!index_.room_for(candidate.shape, open)) return false;
    const PlacementAnswer answer = grown(run, index_.place(candidate.shape, open), open);
    if (answer.verdict != Verdict::feasible_now) return false;
    place_on(candidate, run, answer.seats);
    return true;
}

// Returns the reservations that the run must leave alone even on the seats that it has reserved: those with a promised
// time, and for a run without one also those that come before it in this cycle.
ReservationMask Cycle::closed_to_own_seats(const Run& run) {
    const ReservationMask before = run.reserved_from.ms == 0 ? ~open_beside_active() : 0;
    return (promised_to_others(run) | before) & ~open_to(run);
}

// Once its time has come, the seats that the run has reserved are its own, whatever the reservations behind it expect.
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
    quotas_.count(candidate.line->queue, demand_of_first(run, seats.size()));
    for (const Seat& seat : seats) taken_on_.insert(seat.node);
    place_attempt(change_, candidate.run, seats);
    seen_.erase(candidate.run);
    change_.settle();
    wait_for_passed({.run = candidate.run, .number = run.attempts});
}

// An attempt has passed reservations that had their turn in this cycle. Those of unknown time whose seats it took wait
// for its end as well, so that what others expect beside these seats stays true.
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

// Behind a reservation. A shorter one of the same shape may still be over in time: is there room for the shortest?
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

// Runs of the programs that reservations wait for may stand behind others of their shape, which may not pass.
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
            if (run.retry_at > change_.now() || !index_.waits(waiter.id)) continue;
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

// Nodes have come or gone, or other quotas are in force. Those of a shape were told alike. While a node has not
// registered since the head's start, runs keep the reason that they had before it.
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

// Every run is told once why it waits, and again when that may hold no more. (Behind whom it waits is for `explain`.)
void Cycle::give_reasons() {
    std::set<RunId> without_reason = index_.fresh();
    if (change_.nodes_have_changed() || change_.queues_have_changed()) without_reason.merge(outdated_reasons());
    for (const RunId id : without_reason)
        if (const Run& run = change_.seen().runs.at(id); run.state == RunState::queued && !quota_reserved_.contains(id))
            give_reason(id, reason_to_wait(run, index_.shape_of(id)));
}

// Those who reserved before and are no longer first.
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

// A run whose turn has come and that keeps no reservation closes none to those behind it.
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
    grow();
    if (!index_.fresh().empty() || change_.nodes_have_changed() || change_.queues_have_changed()) give_reasons();
    change_.settle();
}

}  // namespace

void place_waiting(Change& change) {
    change.settle();
    for (int left = limits::cycles_most;; --left) {
        Cycle cycle(change);
        if (cycle.run() && left > 1) continue;
        return cycle.finish();
    }
}

}  // namespace rtrain::core

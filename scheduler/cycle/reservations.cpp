// The reservations of a scheduling cycle.
#include <algorithm>

#include "scheduler/cycle/cycle.hpp"
#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/queue/preemption.hpp"
#include "scheduler/queue/reserved.hpp"

namespace rtrain::core {

// Adds the run's reservation to `seen_`, which later placements of this cycle respect. The reservations of runs that
// the cycle has not reached yet are in it too, so that a promised time of an older run does not move.
void Cycle::see(RunId id) {
    const Run& run = change_.seen().runs.at(id);
    seen_.insert_or_assign(id, SeenReservation{.bit = index_.reserved().bit_of(id),
                                               .priority = run.spec.priority,
                                               .begin = begin_of(change_.seen(), run)});
}

// Returns true if the candidate needs no reservation of its own because it will start after an earlier one. That is so
// if it could use the same nodes, and demands every resource that the earlier reservation lacks.
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

// Returns the reservations that are open to a run which starts later. Unlike in open_to, the run passes no reservation
// by ending early: that may no longer hold at its start.
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

// Returns the reservations with a known time of other runs that have at least this run's priority.
ReservationMask Cycle::promised_to_others(const Run& run) const {
    ReservationMask promised = 0;
    for (const auto& [id, reservation] : seen_)
        if (reservation.begin.from.ms != 0) promised |= reservation.bit;
    return promised & ~open_to_later(run);
}

// Returns seats for a run that finds none beside all other reservations. The seats are beside the reservations that
// precede it in this cycle. If possible, they are also beside all reservations with a known time. Otherwise the run
// starts after the reservations with a known time, whose ends are unknown.
Reservation Cycle::reserve_before_others(const Candidate& candidate) {
    const ReservationMask promised = promised_to_others(change_.seen().runs.at(candidate.run));
    const ReservationMask beside = open_beside_active();
    Reservation next = reserve(change_.seen(), index_, candidate.shape, change_.now(), beside & ~promised);
    if (!next.nodes.empty() || (beside & promised) == 0) return next;
    return reserve(change_.seen(), index_, candidate.shape, change_.now(), beside, {}, Promise::none);
}

// Makes the reservation again, or moves it to an earlier time: runs may end before their limits, and other nodes may be
// free by then. Returns true if there is a reservation.
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

// Returns true if resources were released on a node outside of the reservation, and a part of the gang fits on that
// node now.
bool Cycle::found_another_node(const Run& run, const GangRequest& gang) const {
    const auto& nodes = change_.given_back_on();
    return std::any_of(nodes.begin(), nodes.end(), [&](const NodeId& id) {
        if (std::binary_search(run.nodes_reserved.begin(), run.nodes_reserved.end(), id)) return false;
        const NodeView* node = index_.node(id);
        return node != nullptr && placing::takes_one(*node, gang, node->free, node->gpus_free);
    });
}

// Returns true if the reservation must wait for other attempts than its record lists. A run of higher priority has
// taken some of its seats, or the resources released on its nodes are not enough.
bool Cycle::overtaken(const Run& run) const {
    const auto& given_back = change_.given_back_on();
    return std::any_of(run.nodes_reserved.begin(), run.nodes_reserved.end(), [&](const NodeId& id) {
        return (taken_on_.contains(id) || given_back.contains(id)) && !will_be_free(index_, run, id);
    });
}

// Returns true if the run's reservation can be kept. A reservation with a known time is kept until that time has
// passed. A reservation with an unknown time is expensive to make, so it is made again in two cases only: resources
// were released on another node, or other runs have taken its seats. Reservations of earlier versions have no seats and
// are always made again.
bool Cycle::still_valid(const Run& run, const GangRequest& gang) const {
    if (run.seats_reserved.size() != gang.bundles.size() || run.nodes_reserved.empty() ||
        index_.reserved().bit_of(run.id) == 0 || change_.nodes_have_changed())
        return false;
    if (run.reserved_from.ms != 0)
        return run.reserved_from > change_.now() || begins_now(change_.seen(), run, change_.now());
    return !found_another_node(run, gang) && !overtaken(run);
}

// Returns true if the candidate's reservation begins before victims of a preemption would have ended.
bool Cycle::starts_before_preemption(const Candidate& candidate) const {
    const Run& run = change_.seen().runs.at(candidate.run);
    return run.reserved_from > change_.now() &&
           run.reserved_from <= change_.now() + change_.seen().queues.preemption_grace &&
           still_valid(run, index_.shape(candidate.shape).gang);
}

// Removes attempts from the list of those whose ends the reservation waits for, if other attempts have released as much
// on the reserved nodes.
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

// Makes or updates the candidate's reservation. A known time only changes to an earlier one.
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
    add_reservation(candidate);
}

void Cycle::add_reservation(const Candidate& candidate) {
    see(candidate.run);
    reservations_.push_back({.run = candidate.run,
                             .shape = candidate.shape,
                             .bit = index_.reserved().bit_of(candidate.run),
                             .claim = candidate.claim});
    quotas_.withhold(change_.seen().runs.at(candidate.run), index_.shape(candidate.shape).total);
    refused_.clear();
}

// Returns true if no quota would be kept for a later start of the run. The run must then fit beside all runs for which
// quota is withheld, even if it is short.
bool Cycle::has_no_quota_later(const Candidate& candidate, const Run& run) const {
    const Borrower who{.run = run.id, .record = &run};
    return quotas_.refuses(candidate.line->queue, index_.shape(candidate.shape).total, who).has_value();
}

// Keeps the run's seats, and withholds its quota until the reserved time. Runs that end before that time may use the
// quota. The reservation is dropped if the run's budget is used up, because it is then unknown when the run could
// start.
void Cycle::keep_reservation(const Candidate& candidate, const Run& run) {
    const bool listed = std::any_of(reservations_.begin(), reservations_.end(),
                                    [&](const ActiveReservation& own) { return own.run == candidate.run; });
    if (!listed && reservations_.size() < limits::reservations_most && run.reserved_from.ms != 0 &&
        quotas_.withholds(run) && still_valid(run, index_.shape(candidate.shape).gang))
        add_reservation(candidate);
}

// Makes a reservation for a run in a short backoff. The reservation begins when the run may start again.
void Cycle::reserve_for_retry(const Candidate& candidate, const Run& run) {
    if (run.retry_at - change_.now() > limits::backoff_keeps_place || !index_.ever(candidate.shape)) return;
    if (run.nodes_reserved.empty() && has_no_quota_later(candidate, run)) return;
    if (candidate.claim == Claim::reservation || heads() == 0) make_reservation(candidate, run.retry_at);
}

std::size_t Cycle::heads() const {
    return static_cast<std::size_t>(
        std::count_if(reservations_.begin(), reservations_.end(),
                      [](const ActiveReservation& reservation) { return reservation.claim != Claim::starving; }));
}

}  // namespace rtrain::core

// One scheduling cycle: its state and its steps. scheduling_cycle.cpp has the order of the steps and places runs.
// reservations.cpp makes, renews and keeps reservations. yielding.cpp ends and starts runs that yield.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/change.hpp"
#include "scheduler/placement/room.hpp"
#include "scheduler/queue/backfill.hpp"
#include "scheduler/queue/order.hpp"
#include "scheduler/queue/shares.hpp"
#include "scheduler/queue/yielding.hpp"

namespace rtrain::core {

struct ActiveReservation {  // a reservation that is in force in this cycle
    RunId run;
    std::uint32_t shape = 0;
    ReservationMask bit = 0;
    Claim claim = Claim::none;
    // Names of the resources that the run lacks; computed at their first use.
    std::optional<std::vector<std::string>> lacks{};
};

// The part of a reservation that decides whether other runs may use its seats.
struct SeenReservation {
    ReservationMask bit = 0;
    std::int32_t priority = 0;
    Begin begin;
};

class Cycle {
  public:
    explicit Cycle(Change& change) : change_(change), index_(change.index()), quotas_(change.seen()) {}
    // Places waiting runs in order. Returns true if another cycle is due: a reservation was given up that had kept a
    // run waiting.
    bool run();
    void finish();  // called after the last cycle

  private:
    // result for a candidate: `on` also tries the next run of its shape, `skip` leaves out the rest of its shape
    enum class Next { on, skip };
    Next consider(const Candidate& candidate);
    Next blocked(const Candidate& candidate);
    std::optional<Next> refused_by_quota(const Candidate& candidate, const Run& run);
    void reserve_for_retry(const Candidate& candidate, const Run& run);
    void keep_reservation(const Candidate& candidate, const Run& run);
    bool has_no_quota_later(const Candidate& candidate, const Run& run) const;
    void add_reservation(const Candidate& candidate);
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
    bool starts_before_preemption(const Candidate& candidate) const;
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
    // ---- yielding.cpp
    void end_yielding();
    void start_yielding();
    std::vector<NodeView> left_to_yielding() const;

    Change& change_;
    ClusterIndex& index_;
    Quotas quotas_;
    std::set<RunId> quota_reserved_;  // runs for which quota is reserved that preempted runs will release
    std::vector<ActiveReservation> reservations_;
    std::map<RunId, SeenReservation> seen_;  // reservations of earlier cycles and of this one
    ReservationMask given_up_ = 0;  // reservations that were dropped because this cycle has found no seats for them
    ReservationMask kept_out_ = 0;  // reservations that were closed to some run which found no room
    std::set<NodeId> taken_on_;     // nodes on which this cycle has placed a run
    std::set<std::uint32_t> full_;  // shapes that found no room on any node
    // key: the shape; value: the reason why a run of this shape can never be placed
    std::map<std::uint32_t, Reason> never_fits_;
    std::map<std::uint32_t, std::size_t> too_long_;
    // Key: the shape. Value: the reservations that were open to it when it found no room.
    std::map<std::uint32_t, ReservationMask> refused_;
    // ---- of yielding runs; set while there are some
    std::optional<YieldedRoom> yielded_;
    std::set<NodeId> growing_on_;                                   // nodes that growing runs count on
    std::map<std::uint32_t, ReservationMask> refused_by_yielding_;  // as refused_, as if all yielding runs had ended
};

}  // namespace rtrain::core

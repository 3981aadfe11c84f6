// Which runs are preempted for which. Makes plans alone: lifecycle/preempt.cpp requests the checkpoints. Inside of the
// core only.
#pragma once

#include <optional>

#include "scheduler/placement/reserved_seats.hpp"
#include "scheduler/queue/preemption_choice.hpp"
#include "scheduler/queue/shares.hpp"

namespace rtrain::core {

class Change;

// Which runs are to be preempted so that the waiting run fits on nodes of the mask, and when they are gone. Without
// victims, the runs that must go have been asked by an earlier plan.
struct PreemptionPlan {
    Victims victims;
    Time by;
};
// Returns nullopt if the run would not fit even then, or if it may not preempt those that it would need to.
std::optional<PreemptionPlan> plan_preemption(const Change& change, const Quotas& quotas, RunId waiting,
                                              ReservationMask open = every_reservation);
// Returns a waiting run that could use this attempt's resources and has too few; nullopt if there is none. The run that
// the attempt was preempted for comes first, then the order of the queue. Each search of the nodes takes one from
// `looks`; with none left, the first run that may preempt the attempt is returned without a search.
std::optional<RunId> find_preemptor(Change& change, const Attempt& attempt, std::size_t& looks);
Reason preempted_by(const Run& preemptor);
std::size_t requests_looked_at(const Cluster& cluster);  // so many looks for one event

}  // namespace rtrain::core

// Decides which runs are preempted for a waiting run. It only makes plans: lifecycle/preempt.cpp sends the checkpoint
// requests. Used inside of the scheduler's core only.
#pragma once

#include <optional>

#include "scheduler/placement/reserved_seats.hpp"
#include "scheduler/queue/preemption_choice.hpp"
#include "scheduler/queue/shares.hpp"

namespace rtrain::core {

class Change;

// The runs to preempt so that the waiting run fits on nodes of the mask, and the time by which their resources are
// free. `victims` is empty if earlier requests already free enough.
struct PreemptionPlan {
    Victims victims;
    Time by;
};
// Returns nullopt if the run would not fit after every permitted preemption.
std::optional<PreemptionPlan> plan_preemption(const Change& change, Quotas quotas, RunId waiting,
                                              ReservationMask open = every_reservation);
// Returns a waiting run that could use this attempt's resources and has too few; nullopt if there is none. The run that
// the attempt was preempted for comes first, then the order of the queue. Each search of the nodes takes one from
// `looks`; with none left, the first run that may preempt the attempt is returned without a search.
std::optional<RunId> find_preemptor(Change& change, const Attempt& attempt, std::size_t& looks);
Reason preempted_by(const Run& preemptor);
std::size_t requests_looked_at(const Cluster& cluster);  // Returns how many searches one event may make.

}  // namespace rtrain::core

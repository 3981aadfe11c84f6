// Who is preempted for whom. Plans alone: lifecycle/preempt.cpp asks them. Inside of the core only.
#pragma once

#include <optional>

#include "scheduler/placement/reserved_nodes.hpp"
#include "scheduler/queue/preemption_choice.hpp"
#include "scheduler/queue/shares.hpp"

namespace rtrain::core {

class Change;

// Who is to give way until the waiting run fits on nodes of the mask; none: it will not fit, or may not take from
// them. Without victims: those who must go have been asked before, and have gone by that time.
struct PreemptionPlan {
    Victims victims;
    Time by;
};
std::optional<PreemptionPlan> plan_preemption(const Change& change, const Quotas& quotas, RunId waiting,
                                              ReservationMask open = every_reservation);
// A run that waits, may have what this one was asked to leave, and lacks it. Each look at the nodes is counted off;
// without any left the first that may have it does.
std::optional<RunId> find_preemptor(Change& change, const Attempt& attempt, std::size_t& looks);
Reason preempted_by(const Run& preemptor);
std::size_t requests_looked_at(const Cluster& cluster);  // so many looks for one event

}  // namespace rtrain::core

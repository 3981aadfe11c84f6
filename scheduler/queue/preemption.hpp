// Who is preempted for whom. Plans alone: lifecycle/preempt.cpp asks them. Inside of the core only.
#pragma once

#include <optional>

#include "scheduler/placement/kept_nodes.hpp"
#include "scheduler/queue/preemption_choice.hpp"
#include "scheduler/queue/shares.hpp"

namespace rtrain::core {

class Change;

// Who is to give way until the waiting run fits on nodes behind open doors; none: it will not fit, or may not take from
// them. Without victims: those who must go have been asked before, and have gone by that time.
struct PreemptionPlan {
    Victims victims;
    Time by;
};
std::optional<PreemptionPlan> plan_preemption(const Change& change, const Quotas& quotas, RunId waiting,
                                              Doors open = every_door);
// A run that waits, may have what this one was asked to leave, and lacks it. Each look at the nodes is counted off;
// without any left the first that may have it does.
std::optional<RunId> still_wanted_by(Change& change, const Attempt& attempt, std::size_t& looks);
std::string gives_way_to(const Run& taker);
std::size_t asks_looked_at(const Cluster& cluster);  // so many looks for one event

}  // namespace rtrain::core

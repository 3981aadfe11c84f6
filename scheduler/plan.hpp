// Answers "What would happen if I submitted this?": decides the submission on a copy of the cluster, and explains the
// result.
#pragma once

#include "scheduler/explain/explain.hpp"
#include "scheduler/model/events.hpp"

namespace rtrain {

struct Plan {
    // the error with which the submission would be refused; then the other fields are empty
    std::optional<Error> refused;
    Explanation why;  // explanation of the run's state; of an array: of its first run
    PlacementAnswer
        // feasible now: with the seats that the run would get; pending: the run would wait, and `why` explains for what
        answer;
};
// Changes nothing in `cluster`.
Plan plan(const Cluster& cluster, Time now, const RunSubmitted& event);

// Puts `run` into another cluster with the attempts and checkpoints that `all` has of it.
void copy_run(const Cluster& all, Cluster& into, const Run& run);

}  // namespace rtrain

// "What if I submitted this?": the submission is decided on a copy, and what became of it is explained.
#pragma once

#include "scheduler/explain/explain.hpp"
#include "scheduler/model/events.hpp"

namespace rtrain {

struct Plan {
    std::optional<Error> refused;  // as the submission itself would be; then nothing else is said
    Explanation why;               // for an array: of its first run
    PlacementAnswer
        answer;  // feasible now with the seats it would get; pending: it would wait, and `why` says what for
};
// Changes nothing in `cluster`.
Plan plan(const Cluster& cluster, Time now, const RunSubmitted& event);

// Puts `run` into another cluster with the attempts and checkpoints that `all` has of it.
void copy_run(const Cluster& all, Cluster& into, const Run& run);

}  // namespace rtrain

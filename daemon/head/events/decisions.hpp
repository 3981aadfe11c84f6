// One turn of the head: the events that came since the last one are decided in order; what they change is committed
// together, and only then performed. This part is pure, so that the simulator runs the same turn.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/controller.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

struct Turn {
    Time now;
    std::vector<Decision> decisions;    // one per event, in order
    std::vector<state::Entry> entries;  // what to make durable; an event that changed nothing leaves none
};

// `after_each`: a look at the cluster as each event has left it.
Turn decide_turn(Cluster& cluster, Time now, std::int64_t wall_ms, const std::vector<Event>& events,
                 const std::function<void()>& after_each = {});

}  // namespace rtrain::head

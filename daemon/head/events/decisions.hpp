// The events that came to the head since it decided last are decided in order; what they change is committed
// together, and only then performed. This part is pure, so that the simulator runs the same code.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/controller.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

struct Decisions {
    Time now;
    std::vector<Decision> by_event;     // one each, in order
    std::vector<state::Entry> entries;  // what to make durable; an event that changed nothing leaves none
};

// `after_each`: a look at the cluster as each event has left it.
Decisions decide_events(Cluster& cluster, Time now, std::int64_t wall_ms, const std::vector<Event>& events,
                        const std::function<void()>& after_each = {});

}  // namespace rtrain::head

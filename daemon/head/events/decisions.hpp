// Decides the events since the last decision, in order. Their changes are committed together and performed only then.
// This part is pure, so that the simulator runs the same code.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/controller.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

struct Decisions {
    Time now;
    std::vector<Decision> by_event;     // one decision for each event, in order
    std::vector<state::Entry> entries;  // changes to make durable; none for events that changed nothing
};

// `after_each` is called after each event, with the changed cluster.
Decisions decide_events(Cluster& cluster, Time now, std::int64_t wall_ms, const std::vector<Event>& events,
                        const std::function<void()>& after_each = {});

}  // namespace rtrain::head

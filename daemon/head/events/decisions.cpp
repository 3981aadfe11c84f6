// See decisions.hpp.
#include "daemon/head/events/decisions.hpp"

namespace rtrain::head {

Decisions decide_events(Cluster& cluster, Time now, std::int64_t wall_ms, const std::vector<Event>& events,
                        const std::function<void()>& after_each) {
    Decisions decisions{.now = now, .by_event = {}, .entries = {}};
    for (const Event& event : events) {
        Decision decision = decide(cluster, now, event);
        if (after_each) after_each();
        if (!decision.save.empty() || !decision.note.empty())
            decisions.entries.push_back({.now = now,
                                         .wall_ms = wall_ms,
                                         .event = event,
                                         .records = decision.save,
                                         .note = decision.note,
                                         .about_run = decision.about_run,
                                         .about_node = decision.about_node});
        decisions.by_event.push_back(std::move(decision));
    }
    return decisions;
}

}  // namespace rtrain::head

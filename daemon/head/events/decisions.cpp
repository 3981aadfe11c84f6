// See turn.hpp.
#include "daemon/head/events/turn.hpp"

namespace rtrain::head {

Turn decide_turn(Cluster& cluster, Time now, std::int64_t wall_ms, const std::vector<Event>& events,
                 const std::function<void()>& after_each) {
    Turn turn{.now = now, .decisions = {}, .entries = {}};
    for (const Event& event : events) {
        Decision decision = decide(cluster, now, event);
        if (after_each) after_each();
        if (!decision.save.empty() || !decision.note.empty())
            turn.entries.push_back({.now = now,
                                    .wall_ms = wall_ms,
                                    .event = event,
                                    .records = decision.save,
                                    .note = decision.note,
                                    .about_run = decision.about_run,
                                    .about_node = decision.about_node});
        turn.decisions.push_back(std::move(decision));
    }
    return turn;
}

}  // namespace rtrain::head

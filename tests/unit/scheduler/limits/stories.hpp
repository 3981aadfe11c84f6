// Steps of stories about limits and budgets of users in queues.
#pragma once

#include <map>
#include <string>

#include "tests/unit/scheduler_world.hpp"

namespace rtrain::stories {

inline void configure(World& world, const std::map<std::string, QueueRules>& rules) {
    Queues queues;
    queues.rules = rules;
    queues.rules.try_emplace(default_queue);
    world.tell(QueuesConfigured{.queues = queues, .by = "ana"});
}

inline RunId submit_as(World& world, const std::string& user, const std::string& queue, const Job& job) {
    RunSubmitted event = submission(job);
    event.spec.queue = queue;
    event.user = user;
    world.tell(event);
    REQUIRE(world.last.created);
    return *world.last.created;
}

inline void finish_run(World& world, RunId id) {
    world.prepare(id);
    world.start(id);
    world.exits(id, 0, exit_code(0));
    world.empties(id);
}

inline bool runs_now(World& world, RunId id) {
    const RunState state = world.run(id).state;
    return state == RunState::starting || state == RunState::running;
}

}  // namespace rtrain::stories

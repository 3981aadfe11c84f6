// The plan of a run before its submission: its result at its place in the queue.
#include "scheduler/plan.hpp"

#include "scheduler/explain/explain.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

// Plans a run, then submits it. Checks that the plan is correct, and that planning changes nothing.
Plan planned_then_submitted(World& world, const RunSubmitted& event) {
    const Cluster before = world.cluster;
    Plan plan = rtrain::plan(world.cluster, world.now, event);
    CHECK(world.cluster == before);
    CHECK(invariants(world.cluster) == std::vector<std::string>{});
    world.tell(event);
    CHECK(plan.refused == world.last.refused);
    if (world.last.refused) return plan;
    const RunId id = world.last.created.value();
    const bool starts = world.run(id).state == RunState::starting;
    CHECK((plan.answer.verdict == Verdict::feasible_now) == starts);
    const Explanation after = explain(world.cluster, world.now, id, JobWords::shown);
    if (!starts) CHECK(plan.why.rules == after.rules);
    if (!starts) CHECK(plan.why.holders == after.holders);
    if (!starts) CHECK(plan.why.groups.size() == after.groups.size());
    for (std::size_t rank = 0; starts && rank < world.attempt(id).workers.size(); ++rank)
        CHECK(plan.answer.seats.at(rank) == world.attempt(id).workers[rank].seat);
    return plan;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a plan of what would start names the seats that it then gets") {
    World world;
    world.nodes(2, 4);
    world.exits(world.running({.name = "over"}), 0, exit_code(0));
    const Plan plan = planned_then_submitted(world, submission({.name = "a", .workers = 3, .cpus = 2}));
    CHECK(plan.answer.verdict == Verdict::feasible_now);
    CHECK(plan.why.headline == "It would start now: 3 workers on 2 nodes.");
}

TEST_CASE("a plan says that a quota keeps it waiting though there is room") {
    World world;
    world.nodes(2, 4);
    Queues queues;
    queues.rules = {{"default", {}}, {"small", {.quota = {{"CPU", units(2)}}}}};
    world.tell(QueuesConfigured{.queues = queues});
    RunSubmitted event = submission({.name = "a", .cpus = 2});
    event.spec.queue = "small";
    CHECK(planned_then_submitted(world, event).answer.verdict == Verdict::feasible_now);
    event.name = "b";
    const Plan plan = planned_then_submitted(world, event);
    CHECK(plan.answer.verdict == Verdict::pending);
    CHECK(plan.answer.seats.empty());
    CHECK(has(plan.why.headline, "It would be QUEUED, position 1 of 1 in queue \"small\""));
    REQUIRE_FALSE(plan.why.rules.empty());
    CHECK(has(plan.why.rules[0].text, "quota: "));
}

TEST_CASE("a plan says whose reservation keeps it waiting, and a short run passes it") {
    World world;
    world.nodes(2, 4);
    world.running({.name = "busy", .cpus = 4, .wall_time = Duration{3'600'000}});
    world.submit({.name = "big", .workers = 2, .cpus = 4});
    const Plan plan = planned_then_submitted(world, submission({.name = "behind", .cpus = 1}));
    CHECK(plan.answer.verdict == Verdict::pending);
    CHECK(has(plan.why.headline, "waits behind a run that needs the same nodes"));
    bool reserved = false;
    for (const ReasonGroup& group : plan.why.groups) reserved |= has(group.text, "for big (starts in 1h00)");
    CHECK(reserved);
    RunSubmitted passes = submission({.name = "passes", .cpus = 1, .wall_time = Duration{60'000}});
    CHECK(planned_then_submitted(world, passes).answer.verdict == Verdict::feasible_now);
}

TEST_CASE("a plan is refused where the submission is, and says what a held back run waits for") {
    World world;
    world.nodes(1, 4);
    const RunId first = world.running({.name = "first"});
    RunSubmitted event = submission({.name = "second"});
    event.spec.queue = "nope";
    CHECK(planned_then_submitted(world, event).refused);
    CHECK(planned_then_submitted(world, submission({.name = "first"})).refused);
    event = submission({.name = "second", .after = {{.run = first}}});
    const Plan plan = planned_then_submitted(world, event);
    CHECK(plan.answer.verdict == Verdict::pending);
    CHECK(has(plan.why.headline, "waits for first to succeed"));
    const Plan never = planned_then_submitted(world, submission({.name = "never", .cpus = 64}));
    CHECK(never.answer.verdict == Verdict::infeasible);
}

TEST_CASE("a plan names the amounts that are reserved, and for whom") {
    World world;
    world.nodes(1, 4, 1);
    world.running({.name = "actor", .gpus = units(1), .wall_time = Duration{600'000}});
    const RunId big = world.submit({.name = "big", .cpus = 3, .gpus = units(1)});
    CHECK(explain(world.cluster, world.now, big, JobWords::shown).rules[0].text ==
          "reserved: 3 CPU and GPU 0 of n1, expected to start in 10m");
    const Plan plan = planned_then_submitted(world, submission({.name = "behind", .cpus = 2}));
    REQUIRE(plan.why.groups.size() == 1);
    CHECK(plan.why.groups[0].text == "n1 (3 CPU and GPU 0) for big (starts in 10m)");
    CHECK(planned_then_submitted(world, submission({.name = "fits"})).answer.verdict == Verdict::feasible_now);
}

TEST_CASE("a reservation of unknown time names the runs that it waits for") {
    World world;
    world.nodes(1, 4, 1);
    world.running({.name = "actor", .gpus = units(1)});
    const RunId call = world.submit({.name = "call", .gpus = units(1)});
    CHECK(explain(world.cluster, world.now, call, JobWords::shown).rules[0].text ==
          "reserved: 1 CPU and GPU 0 of n1, once actor has ended; nobody knows when");
}

TEST_CASE("the nearest change keeps to the quota, and to what others have reserved") {
    World world;
    Queues queues;
    queues.rules = {{"default", {}}, {"small", {.quota = {{"CPU", units(12)}}}}};
    world.tell(QueuesConfigured{.queues = queues});
    world.nodes(4, 5);
    submit_to(world, "small", {.name = "holds", .workers = 4});
    RunSubmitted event = submission({.name = "wide", .workers = 20});
    event.spec.queue = "small";
    CHECK(plan(world.cluster, world.now, event).answer.nearest_change == "would start now with scaling.workers=8");
    event.spec.gang.bundles.resize(10);  // there is room for 16
    CHECK(plan(world.cluster, world.now, event).answer.nearest_change == "would start now with scaling.workers=8");
    event.spec.queue = "default";
    CHECK(plan(world.cluster, world.now, event).answer.verdict == Verdict::feasible_now);
}

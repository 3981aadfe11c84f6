// Who is placed next, and why a run waits.
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

TEST_CASE("the queue is by priority, then by age") {
    World world;
    const RunId a = world.submit({.name = "a"});
    const RunId b = world.submit({.name = "b", .priority = 80});
    const RunId c = world.submit({.name = "c"});
    CHECK(queue_order(world.cluster) == std::vector<RunId>{b, a, c});
    world.nodes(1, 1);
    CHECK(world.run(b).state == RunState::starting);
    CHECK(world.run(a).state == RunState::queued);
}

TEST_CASE("a blocked big run is not jumped on the nodes it needs, but others may be used") {
    World world;
    world.nodes(2, 4, 1);
    const RunId small = world.running({.name = "small", .gpus = units(1)});
    const RunId big = world.submit({.name = "big", .workers = 2, .gpus = units(1)});
    const RunId behind = world.submit({.name = "behind", .gpus = units(1)});
    CHECK(world.run(big).state == RunState::queued);
    CHECK(world.run(behind).state == RunState::queued);
    CHECK(world.run(behind).reason == "waits behind a run that needs the same nodes");
    world.tell(node("n3", 4, 0));  // no GPU: big could never use it
    const RunId plain = world.submit({.name = "plain"});
    CHECK(world.run(plain).state == RunState::starting);
    CHECK(world.node_of(plain, 0) == NodeId{"n3"});
    world.exits(small, 0, exit_code(0));
    world.empties(small);
    CHECK(world.run(big).state == RunState::starting);
}

TEST_CASE("a driver that takes nothing starts on full and on reserved nodes, and reserves none itself") {
    World world;
    world.nodes(2, 1);
    const RunId small = world.running({.name = "small"});
    const RunId big = world.submit({.name = "big", .workers = 2});
    RunSubmitted event = submission({.name = "driver", .cpus = 0, .max_failures = 3});
    world.tell(event);
    REQUIRE(world.last.refused);  // a gang that needs nothing, and no driver
    event.spec.gang.driver = true;
    world.tell(event);
    const RunId driver = world.last.created.value();
    CHECK(world.run(driver).state == RunState::starting);
    CHECK(world.run(big).state == RunState::queued);
    world.prepare(driver);
    world.start(driver);
    world.exits(driver, 0, killed(9));
    world.empties(driver);
    CHECK(world.run(driver).nodes_reserved.empty());  // it retries in a moment, which keeps no place
    world.exits(small, 0, exit_code(0));
    world.empties(small);
    CHECK(world.run(big).state == RunState::starting);
    world.pass(1'000);
    CHECK(world.run(driver).state == RunState::starting);
}

TEST_CASE("a run that could never fit blocks nobody, says so loudly, and starts when nodes join") {
    World world;
    world.nodes(1, 2);
    const RunId huge = world.submit({.name = "huge", .cpus = 8});
    CHECK(world.run(huge).reason ==
          "NO PRESENT NODES COULD EVER HOLD IT, it waits for nodes to join: n1: has 2 CPU, bundle needs 8");
    const RunId small = world.submit({.name = "small"});
    CHECK(world.run(small).state == RunState::starting);
    world.tell(node("n2", 8));
    CHECK(world.run(huge).state == RunState::starting);
}

TEST_CASE("wait_for_nodes: false refuses what could never fit, with reasons") {
    World world;
    world.nodes(1, 2);
    world.tell(submission({.cpus = 8, .wait_for_nodes = false}));
    REQUIRE(world.last.refused);
    CHECK(world.last.refused->code == ErrorCode::unplaceable);
    CHECK(world.last.refused->message == "no present node could ever hold it: n1: has 2 CPU, bundle needs 8");
    CHECK(world.cluster.runs.empty());
}

TEST_CASE("a run that retries in a moment keeps its place against those behind it") {
    World world;
    world.nodes(1, 1);
    const RunId first = world.running({.name = "first", .max_failures = 3});
    const RunId second = world.submit({.name = "second"});
    world.exits(first, 0, killed(9));
    world.empties(first);
    CHECK(world.run(second).state == RunState::queued);
    world.pass(1'000);
    CHECK(world.run(first).state == RunState::starting);
}

TEST_CASE("a retry that comes due together with another event is not forgotten") {
    World world;
    world.nodes(2, 1);
    const RunId first = world.running({.name = "first", .max_failures = 3});
    const RunId other = world.running({.name = "other"});
    world.exits(first, 0, killed(9));
    world.empties(first);
    world.now.ms += 1'500;
    world.exits(other, 0, exit_code(0));
    CHECK(world.run(first).state == RunState::starting);
}

TEST_CASE("a gang is placed all or not at all") {
    World world;
    world.nodes(3, 1);
    world.running({.name = "one"});
    const RunId gang = world.submit({.name = "gang", .workers = 3});
    CHECK(world.run(gang).state == RunState::queued);
    for (const NodeView& view : node_views(world.cluster))
        CHECK(view.free.size() == (view.id == NodeId{"n1"} ? 0u : 1u));
}

TEST_CASE("explain says the state, the place in the queue, the need, each node's reason, and who holds what") {
    World world;
    world.nodes(2, 4, 4);
    world.running({.name = "vit", .gpus = units(4)});
    const RunId big = world.submit({.name = "big", .workers = 2, .gpus = units(4)});
    world.submit({.name = "later", .gpus = units(4)});
    world.pass(720'000);
    const Explanation why = explain(world.cluster, world.now, big);
    CHECK(why.headline ==
          "QUEUED 12m, position 1 of 2 in queue \"default\". Needs 2 workers x 4 GPU 1 CPU, all at once.");
    REQUIRE(why.placement);
    CHECK(why.placement->reasons.at(0).text == "0 of 4 GPUs untouched, bundle needs 4");
    CHECK(why.placement->nearest_change == "would start now with scaling.workers=1");
    CHECK(why.holders == std::vector<std::string>{"n1: 4 GPU 1 CPU by vit (attempt 1)"});
    CHECK(explain(world.cluster, world.now, {77}).headline == "no run c0ffee-77");
}

// Asked for a checkpoint: who is told, what follows the commit, and what happens at the deadline or without a commit.
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

TEST_CASE("asked to stop with a checkpoint, a run goes on until the next commit, and ends as STOPPED", "[asks]") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 2});
    const Decision asked = world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true});
    const auto orders = all_of<AskCheckpoint>(asked);
    REQUIRE(orders.size() == 2);
    CHECK(orders[0].reason == AskReason::stop);
    CHECK_FALSE(orders[0].left);
    CHECK(all_of<StopAttempt>(asked).empty());
    CHECK(world.run(run).state == RunState::running);

    world.commits(run, "checkpoint_000001-a001");
    CHECK(all_of<StopAttempt>(world.last).size() == 2);
    CHECK(world.run(run).state == RunState::stopping);
    world.empties(run);
    CHECK(world.run(run).state == RunState::stopped);
    CHECK(world.run(run).reason == "stopped by ana");
}

TEST_CASE("without a commit the deadline of a stop ends the run", "[asks]") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true, .deadline = Duration{60'000}});
    CHECK(all_of<AskCheckpoint>(world.last).front().left == Duration{60'000});
    CHECK(next_wake(world.cluster) == Time{world.now.ms + 60'000});
    world.pass(59'999);
    CHECK(world.run(run).state == RunState::running);
    world.pass(1);
    CHECK(world.run(run).state == RunState::stopping);
    CHECK(next_wake(world.cluster) == std::nullopt);
}

TEST_CASE("a run asked to stop that fails before its commit is STOPPED and starts nothing", "[asks]") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.max_failures = 3});
    world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true});
    world.exits(run, 0, killed(9));
    world.empties(run);
    CHECK(world.run(run).state == RunState::stopped);
    CHECK(world.run(run).reason.find("stopped by ana") == 0);
    CHECK(world.run(run).attempts == 1);
}

TEST_CASE("a run that does not train yet has nothing to save: it stops at once", "[asks]") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({});
    world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true});
    CHECK(world.run(run).state == RunState::stopping);
    CHECK(all_of<AskCheckpoint>(world.last).empty());
}

TEST_CASE("a plain stop does not wait for the checkpoint that was asked for", "[asks]") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true});
    world.tell(RunStopAsked{.run = run, .by = "ben"});
    CHECK(world.run(run).state == RunState::stopping);
    CHECK(all_of<StopAttempt>(world.last).size() == 1);
}

TEST_CASE("an operator's ask changes nothing but the checkpoint", "[asks]") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    world.tell(RunCheckpointAsked{.run = run, .by = "ana"});
    CHECK(all_of<AskCheckpoint>(world.last).size() == 1);
    world.tell(RunCheckpointAsked{.run = run, .by = "ana"});  // said again, not twice on record
    CHECK(all_of<AskCheckpoint>(world.last).size() == 1);
    CHECK(world.last.save.empty());
    world.commits(run, "checkpoint_000001-a001");
    CHECK(world.run(run).state == RunState::running);
    CHECK_FALSE(world.attempt(run).ask);
    world.tell(RunCheckpointAsked{.run = {9}, .by = "ana"});
    CHECK(world.last.refused->code == ErrorCode::not_found);
}

TEST_CASE("an agent that registers again hears once more what its workers are asked for", "[asks]") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true, .deadline = Duration{60'000}});
    world.now = world.now + Duration{20'000};
    NodeRegistered again = node("n1");
    again.held = {world.attempt_id(run)};
    const auto orders = all_of<AskCheckpoint>(world.tell(again));
    REQUIRE(orders.size() == 1);
    CHECK(orders[0].left == Duration{40'000});
}

TEST_CASE("a stronger reason takes a weaker one's place, never the other way round", "[asks]") {
    World world;
    world.nodes(3, 1);
    const RunId run = world.running({.workers = 2});
    world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true});
    world.tell(RunResizeAsked{.run = run, .by = "ben", .workers = 1});
    REQUIRE(world.last.refused);
    CHECK(world.last.refused->message.find("stopped by ana") != std::string::npos);
    world.tell(NodeDrained{.node = world.node_of(run, 0), .by = "ana"});
    CHECK(world.attempt(run).ask->reason == AskReason::stop);
    world.commits(run, "checkpoint_000001-a001");
    world.empties(run);
    CHECK(world.run(run).state == RunState::stopped);
}

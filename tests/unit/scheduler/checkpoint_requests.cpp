// Checkpoint requests: the nodes that get them, and the effects of a commit, of the deadline, and of a missing commit.
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

bool request_pending_of(const World& world, RunId run) {
    return world.attempt(run).state == AttemptState::running && world.attempt(run).request.has_value();
}

}  // namespace

TEST_CASE("a checkpoint that was on its way before the ask is no answer: there is time for a newer one", "[asks]") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({});
    const auto commits = [&](const std::string& directory, std::optional<Time> answers) {
        CheckpointCommitted event{.attempt = world.attempt_id(run), .directory = directory};
        event.answers = answers;
        world.tell(event);
    };
    world.pass(510'000);
    world.tell(RunCheckpointAsked{.run = run, .by = "ana"});
    world.pass(30'000);
    const Duration until{1'800'000};
    const Event event =
        GENERATE_COPY(values<Event>({RunStopAsked{.run = run, .by = "ana", .checkpoint = true, .deadline = until},
                                     NodeDrained{.node = world.node_of(run, 0), .by = "ana", .deadline = until},
                                     RunResizeAsked{.run = run, .by = "ana", .workers = 2, .deadline = until}}));
    world.tell(event);
    const Time asked = world.attempt(run).request->asked;
    CHECK(asked == world.now);
    CHECK(all_of<RequestCheckpoint>(world.last).front().asked == asked);
    world.pass(60'000);
    commits("checkpoint_000001-a001", Time{});
    commits("checkpoint_000002-a001", Time{asked.ms - 30'000});  // fulfils the earlier request
    CHECK(world.run(run).state == RunState::running);
    CHECK(request_pending_of(world, run));
    SECTION("a later one is") { commits("checkpoint_000003-a001", asked); }
    SECTION("the deadline holds") { world.pass(1'740'000); }
    SECTION("an agent that does not say is believed") { commits("checkpoint_000003-a001", {}); }
    CHECK(world.attempt(run).state == AttemptState::stopping);
}

TEST_CASE("an operator's ask stays until a later checkpoint is committed", "[asks]") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    world.tell(RunCheckpointAsked{.run = run, .by = "ana"});
    const Time asked = world.attempt(run).request->asked;
    for (const Time answers : {Time{}, asked}) {
        CHECK(world.attempt(run).request);
        CheckpointCommitted event{.attempt = world.attempt_id(run), .directory = "c" + std::to_string(answers.ms)};
        event.answers = answers;
        world.tell(event);
    }
    CHECK_FALSE(world.attempt(run).request);
}

TEST_CASE("without a commit the deadline of a stop ends the run", "[asks]") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true, .deadline = Duration{60'000}});
    CHECK(all_of<RequestCheckpoint>(world.last).front().left == Duration{60'000});
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
    CHECK(to_text(world.run(run).reason).find("stopped by ana") == 0);
    CHECK(world.run(run).attempts == 1);
}

TEST_CASE("a run that does not train yet has nothing to save: it stops at once", "[asks]") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({});
    world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true});
    CHECK(world.run(run).state == RunState::stopping);
    CHECK(all_of<RequestCheckpoint>(world.last).empty());
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
    CHECK(all_of<RequestCheckpoint>(world.last).size() == 1);
    world.tell(RunCheckpointAsked{.run = run, .by = "ana"});  // a repeated request is not recorded twice
    CHECK(all_of<RequestCheckpoint>(world.last).size() == 1);
    CHECK(world.last.save.empty());
    world.commits(run, "checkpoint_000001-a001");
    CHECK(world.run(run).state == RunState::running);
    CHECK_FALSE(world.attempt(run).request);
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
    const auto orders = all_of<RequestCheckpoint>(world.tell(again));
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
    CHECK(world.attempt(run).request->reason == RequestReason::stop);
    world.commits(run, "checkpoint_000001-a001");
    world.empties(run);
    CHECK(world.run(run).state == RunState::stopped);
}

TEST_CASE("asked once more for the same, a commit that answers the first answers both", "[asks]") {
    World world;
    world.nodes(4, 1);
    const RunId run = world.running({.workers = 2});
    const bool stops = GENERATE(true, false);
    const auto send_request = [&](std::uint32_t rank) {
        if (stops)
            world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true});
        else
            world.tell(NodeDrained{.node = world.node_of(run, rank), .by = "ana"});
    };
    send_request(0);
    const Time asked = world.attempt(run).request->asked;
    world.pass(60'000);
    send_request(1);
    CheckpointCommitted event{.attempt = world.attempt_id(run), .directory = "checkpoint_000001-a001"};
    event.answers = asked;
    world.pass(1'000);
    world.tell(event);
    CHECK(world.attempt(run).state == AttemptState::stopping);
}

TEST_CASE("stopped at once, a run has no grace, however it was being ended before", "[asks]") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 2});
    SECTION("it trains") {}
    SECTION("it is asked for a checkpoint") { world.tell(RunStopAsked{.run = run, .by = "ana", .checkpoint = true}); }
    SECTION("it stops") { world.tell(RunStopAsked{.run = run, .by = "ana"}); }
    SECTION("it ends by itself") {
        for (const std::uint32_t rank : {0, 1}) world.exits(run, rank, exit_code(0));
        REQUIRE(world.attempt(run).state == AttemptState::stopping);
    }
    world.tell(RunStopAsked{.run = run, .by = "ana", .now = true});
    auto orders = all_of<StopAttempt>(world.last);
    std::erase_if(orders, [](const StopAttempt& one) { return !one.at_once; });
    REQUIRE(orders.size() == 2);
    CHECK(orders[0].grace == Duration{});
    world.empties(run);
    CHECK(terminal(world.run(run).state));
}

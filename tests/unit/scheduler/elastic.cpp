// Runs that change their size: as many as fit, shrinking with a lost node, growing at a commit, and by hand.
#include "scheduler/model/derived.hpp"
#include "scheduler/placement/largest.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

std::size_t size_of(const World& world, RunId run) { return world.attempt(run).workers.size(); }

// Ends the attempt that was stopped for a resize, then places and starts the next one.
void restarts(World& world, RunId run, const std::string& from) {
    world.empties(run);
    REQUIRE(world.run(run).state == RunState::starting);
    world.prepare(run, 0, from);
    world.start(run);
}

}  // namespace

TEST_CASE("an elastic run starts with as many workers as fit, at least its smallest number", "[elastic]") {
    World world;
    world.nodes(3, 1);
    const RunId run = world.submit({.workers = 8, .workers_min = 2});
    CHECK(size_of(world, run) == 3);

    const RunId waits = world.submit({.name = "second", .workers = 4, .workers_min = 2});
    CHECK(world.run(waits).state == RunState::queued);
    world.tell(node("n4", 1));
    CHECK(world.run(waits).state == RunState::queued);
    world.tell(node("n5", 1));
    CHECK(size_of(world, waits) == 2);
}

TEST_CASE("the largest gang that places is found whatever the strategy", "[elastic]") {
    World world;
    world.nodes(3, 2);
    for (const auto& [strategy, fits] : {std::pair{Strategy::pack, 6}, std::pair{Strategy::spread, 6},
                                         std::pair{Strategy::strict_pack, 2}, std::pair{Strategy::strict_spread, 3}}) {
        GangRequest gang;
        gang.strategy = strategy;
        gang.bundles.assign(100, bundle(1));
        const Sized sized = place_largest(node_views(world.cluster), gang, 1);
        CHECK(sized.answer.verdict == Verdict::feasible_now);
        CHECK(sized.workers == static_cast<std::uint32_t>(fits));
        CHECK(sized.answer.seats.size() == sized.workers);
    }
}

TEST_CASE("ranks that fail of a node's loss before it is noticed do not count either", "[elastic]") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 2, .max_failures = 0, .workers_min = 1});
    const NodeId survivor = world.node_of(run, 0), gone = world.node_of(run, 1);
    world.exits(run, 0, exit_code(1));  // the rank's peer does not answer
    world.tell(NodeEmptied{.attempt = world.attempt_id(run), .node = survivor});
    CHECK(world.attempt(run).state == AttemptState::stopping);
    world.tell(NodeLost{.node = gone, .why = "silent"});
    const Attempt& lost = world.cluster.attempts.at({.run = run, .number = 1});
    CHECK(lost.state == AttemptState::lost);
    CHECK_FALSE(lost.first_failure);
    CHECK(to_text(lost.cause).find("node " + gone.value + " was lost") == 0);
    CHECK(world.run(run).failures == 0);
    CHECK(world.run(run).nodes_avoided.empty());
    CHECK(size_of(world, run) == 1);
}

namespace {

// Starts the run's attempt on n1, commits a checkpoint if it has a name, and loses n1 after `ms`.
void loses_its_node_after(World& world, RunId run, std::int64_t ms, const std::string& checkpoint = "") {
    world.prepare(run);
    world.start(run);
    if (!checkpoint.empty()) world.commits(run, checkpoint);
    world.pass(ms);
    world.tell(NodeLost{.node = {"n1"}, .why = "silent"});
    world.tell(node("n1", 1));
    world.pass(60'000);
}

}  // namespace

TEST_CASE("an elastic run whose node is lost 5 times without progress fails", "[elastic]") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.submit({.workers = 2, .max_failures = 0, .workers_min = 1});
    for (std::uint32_t loss = 1; loss <= limits::losses_in_a_row; ++loss) {
        REQUIRE(world.attempt(run).state == AttemptState::placed);
        loses_its_node_after(world, run, 40'000);
    }
    CHECK(world.run(run).state == RunState::failed);
    CHECK(world.run(run).attempts == limits::losses_in_a_row);
    CHECK(world.run(run).failures == 0);
    CHECK(to_text(world.run(run).reason) ==
          "node n1 was lost: silent (5 attempts in a row lost a node, without a checkpoint between them)");
}

TEST_CASE("losses in starts and later ones are one series", "[elastic]") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.submit({.workers = 2, .max_failures = 0, .workers_min = 1});
    for (std::uint32_t loss = 1; loss <= limits::losses_in_a_row; ++loss) {
        REQUIRE(world.attempt(run).state == AttemptState::placed);
        if (loss % 2 == 0) loses_its_node_after(world, run, 0);
        if (loss % 2 == 0) continue;
        world.tell(NodeLost{.node = {"n1"}, .why = "silent"});
        world.tell(node("n1", 1));
        world.pass(60'000);
    }
    CHECK(world.run(run).state == RunState::failed);
}

TEST_CASE("an elastic run that makes progress outlives any number of lost nodes", "[elastic]") {
    for (const bool commits : {true, false}) {
        World world;
        world.nodes(1, 1);
        const RunId run = world.submit({.workers = 2, .max_failures = 0, .workers_min = 1});
        for (std::uint32_t loss = 1; loss <= 4 * limits::losses_in_a_row; ++loss) {
            REQUIRE(world.attempt(run).state == AttemptState::placed);
            const bool progress = loss % limits::losses_in_a_row == 0;
            loses_its_node_after(world, run, progress && !commits ? limits::proves_harmless.ms : 1'000,
                                 progress && commits ? "checkpoint_00000" + std::to_string(loss / 5) : "");
        }
        CHECK(world.attempt(run).state == AttemptState::placed);
    }
}

TEST_CASE("an elastic run is not blamed for nodes that an admin removes", "[elastic]") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.submit({.workers = 2, .max_failures = 0, .workers_min = 1});
    for (std::uint32_t loss = 1; loss <= 2 * limits::losses_in_a_row; ++loss) {
        REQUIRE(world.attempt(run).state == AttemptState::placed);
        world.prepare(run);
        world.start(run);
        world.tell(NodeLeft{.node = {"n1"}});
        world.tell(node("n1", 1));
        world.pass(60'000);
    }
    CHECK(world.attempt(run).state == AttemptState::placed);
}

TEST_CASE("a failing worker of an elastic run counts as for any other", "[elastic]") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 2, .max_failures = 0, .workers_min = 1});
    world.exits(run, 1, killed(9));
    world.empties(run);
    CHECK(world.run(run).state == RunState::failed);
}

TEST_CASE("room that goes again before the time is over is no room", "[elastic]") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({.workers = 4, .workers_min = 1});
    world.tell(node("n2", 1));
    world.pass(20'000);
    const RunId other = world.running({.name = "other"});
    world.pass(20'000);
    CHECK_FALSE(world.attempt(run).request);
    world.exits(other, 0, exit_code(0));
    world.empties(other);
    world.pass(29'999);
    CHECK_FALSE(world.attempt(run).request);
    world.pass(1);
    CHECK(world.attempt(run).request);
}

TEST_CASE("room that goes between the ask and the commit: the run keeps what it has", "[elastic]") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({.workers = 4, .workers_min = 1});
    world.tell(node("n2", 1));
    world.pass(30'000);
    REQUIRE(world.attempt(run).request);
    world.submit({.name = "other"});
    world.commits(run, "checkpoint_000001-a001");
    CHECK(world.run(run).state == RunState::running);
    CHECK_FALSE(world.attempt(run).request);
}

TEST_CASE("a run that came between the ask and the commit needs the room: the run keeps its seats", "[elastic]") {
    const std::int32_t priority = GENERATE(50, 60);
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({.workers = 4, .workers_min = 1});
    world.tell(node("n2", 1));
    world.pass(30'000);
    REQUIRE(world.attempt(run).request);
    const RunId waits = world.submit({.name = "waits", .workers = 2, .priority = priority});
    REQUIRE_FALSE(world.run(waits).nodes_reserved.empty());
    world.commits(run, "checkpoint_000001-a001");
    CHECK(world.run(run).state == RunState::running);
    CHECK_FALSE(world.attempt(run).request);
    world.tell(node("n3", 1));  // the other run has its own room now
    CHECK(world.run(waits).state == RunState::starting);
}

TEST_CASE("a run does not stop to grow where one of higher priority waits for its seats", "[elastic]") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({.workers = 4, .workers_min = 1});
    RunSubmitted urgent = submission({.name = "urgent", .priority = 60});
    urgent.spec.gang.nodes_only = {{"n1"}};
    world.tell(urgent);
    const RunId waits = *world.last.created;
    world.tell(node("n2", 1));
    world.pass(60'000);
    CHECK_FALSE(world.attempt(run).request);
    world.tell(RunStopAsked{.run = waits, .by = "ana"});
    world.pass(30'000);
    CHECK(world.attempt(run).request);
}

TEST_CASE("a run of a fixed size is not resized into room that a waiting run needs", "[elastic]") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({});
    const RunId waits = world.submit({.name = "waits", .workers = 2});
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 2});
    REQUIRE(world.last.refused);
    CHECK(world.last.refused->message ==
          "runs that wait could use the room for 2 workers of run job now, it goes on with 1");
    world.tell(RunStopAsked{.run = waits, .by = "ana"});
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 2});
    CHECK(world.attempt(run).request->workers == 2);
}

TEST_CASE("growing takes nothing that a waiting run needs", "[elastic]") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({.workers = 4, .workers_min = 1});
    const RunId big = world.submit({.name = "big", .workers = 2});
    world.tell(node("n2", 1));
    world.pass(60'000);
    CHECK(world.run(big).state == RunState::queued);
    CHECK_FALSE(world.attempt(run).request);
}

TEST_CASE("resize by hand: a fixed run changes its size at its next commit, in both directions", "[elastic]") {
    World world;
    world.nodes(4, 1);
    const RunId run = world.running({.workers = 2});
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 4});
    CHECK(all_of<RequestCheckpoint>(world.last).front().workers == 4);
    world.commits(run, "checkpoint_000001-a001");
    restarts(world, run, "checkpoint_000001-a001");
    CHECK(size_of(world, run) == 4);

    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 1});
    world.commits(run, "checkpoint_000002-a002");
    restarts(world, run, "checkpoint_000002-a002");
    CHECK(size_of(world, run) == 1);
    CHECK(world.run(run).failures == 0);
}

TEST_CASE("an elastic run is resized within its range only, and keeps to the number asked for", "[elastic]") {
    World world;
    world.nodes(4, 1);
    const RunId run = world.running({.workers = 4, .workers_min = 2});
    CHECK(size_of(world, run) == 4);
    CHECK(world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 1}).refused->message.find("2..4") !=
          std::string::npos);
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 3});
    world.commits(run, "checkpoint_000001-a001");
    restarts(world, run, "checkpoint_000001-a001");
    CHECK(size_of(world, run) == 3);
    world.pass(120'000);
    CHECK_FALSE(world.attempt(run).request);  // the run does not grow beyond that by itself
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 4});
    CHECK(world.attempt(run).request->workers == 4);  // there is room, so the request is made at once
}

TEST_CASE("an elastic run of unlike workers takes the first selectors of its list at each size", "[elastic]") {
    World world;
    for (const char* name : {"n1", "n2", "n3"}) {
        NodeRegistered joins = node(name, 1);
        joins.labels["rack"] = name;
        world.tell(joins);
    }
    RunSubmitted event = submission({.workers = 3, .workers_min = 1});
    for (std::size_t i = 0; i < 3; ++i)
        event.spec.gang.bundles[i].selector = {{.key = "rack", .values = {"n" + std::to_string(3 - i)}}};
    world.tell(event);
    const RunId run = *world.last.created;
    world.prepare(run);
    world.start(run);
    REQUIRE(size_of(world, run) == 3);
    world.commits(run, "checkpoint_000001-a001");
    world.tell(NodeLost{.node = {"n1"}, .why = "silent"});
    restarts(world, run, "checkpoint_000001-a001");
    CHECK(size_of(world, run) == 2);  // the node of the third selector has left
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 1});
    world.commits(run, "checkpoint_000002-a002");
    restarts(world, run, "checkpoint_000002-a002");
    CHECK(world.attempt(run).workers.front().seat.node == NodeId{"n3"});
    CHECK(size_of(world, run) == 1);
}

TEST_CASE("an elastic run that is to grow by a deadline does so then, counted from when there is room", "[elastic]") {
    const bool room = GENERATE(true, false);
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 8, .workers_min = 1});
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 2});
    const auto more_nodes = [&] {
        for (const char* name : {"n3", "n4"}) world.tell(node(name, 1));
    };
    if (room) more_nodes();
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 4, .deadline = Duration{300'000}});
    CHECK(world.attempt(run).request.has_value() == room);
    if (!room) {
        more_nodes();
        world.pass(30'000);  // grow_after
    }
    REQUIRE(world.attempt(run).request);
    CHECK(world.attempt(run).request->deadline == world.now + Duration{300'000});
    world.pass(300'000);
    CHECK(world.run(run).state == RunState::resizing);
    restarts(world, run, "");
    CHECK(size_of(world, run) == 4);
    CHECK_FALSE(world.run(run).resize_within);
}

TEST_CASE("a resize asked for with a deadline happens then from the last commit", "[elastic]") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 2});
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 1, .deadline = Duration{10'000}});
    world.pass(10'000);
    CHECK(world.run(run).state == RunState::resizing);
    restarts(world, run, "");
    CHECK(size_of(world, run) == 1);
}

TEST_CASE("a quota that is used up between the ask and the commit: the run keeps what it has", "[elastic]") {
    World world;
    Queues queues;
    queues.rules = {{"default", {.quota = {{"GPU", units(4)}}}}};
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.nodes(1, 64, 8);
    const RunId other = world.running({.name = "other", .gpus = units(2)});
    const RunId run = world.running({.workers = 4, .gpus = units(1), .workers_min = 1});
    CHECK(size_of(world, run) == 2);
    world.exits(other, 0, exit_code(0));
    world.empties(other);
    world.pass(30'000);
    REQUIRE(world.attempt(run).request);
    const RunId half = world.submit({.name = "half", .gpus = units(1)});
    const RunId rest = world.submit({.name = "rest", .gpus = units(1)});
    CHECK(world.run(rest).state == RunState::starting);
    world.commits(run, "checkpoint_000001-a001");
    CHECK(world.run(run).state == RunState::running);
    CHECK_FALSE(world.attempt(run).request);

    world.tell(RunStopAsked{.run = half, .by = "ana"});  // frees one node, by which the run grows
    world.empties(half);
    world.pass(30'000);
    REQUIRE(world.attempt(run).request);
    world.commits(run, "checkpoint_000002-a001");
    restarts(world, run, "checkpoint_000002-a001");
    CHECK(size_of(world, run) == 3);
}

TEST_CASE("a run that has borrowed does not grow by what its lender claims back", "[elastic]") {
    World world;
    Queues queues;
    const auto four = Resources{{"GPU", units(4)}};
    queues.rules = {{"default", {}},
                    {"all", {.quota = {{"GPU", units(8)}}}},
                    {"a", {.parent = "all", .quota = four}},
                    {"b", {.parent = "all", .quota = four}}};
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.nodes(1, 64, 16);
    RunSubmitted event = submission({.name = "fixed", .workers = 5, .gpus = units(1)});
    event.spec.queue = "a";
    world.tell(event);
    const RunId fixed = *world.last.created;
    world.prepare(fixed);
    world.start(fixed);
    world.tell(RunResizeAsked{.run = fixed, .by = "ana", .workers = 9});
    REQUIRE(world.last.refused);
    CHECK(world.last.refused->message ==
          "a quota keeps run fixed from 9 workers now, it goes on with 5: of the quota of queue \"all\", 8 GPU, others "
          "hold 0, and it would need 9");
    event = submission({.name = "lender", .gpus = units(4)});
    event.spec.queue = "b";
    world.tell(event);
    world.tell(RunResizeAsked{.run = fixed, .by = "ana", .workers = 6});
    REQUIRE(world.last.refused);
    CHECK(world.last.refused->message.find("claims its own back") != std::string::npos);
}

TEST_CASE("the deadline of a resize ends with the first growth, or with another size", "[elastic]") {
    World world;
    world.nodes(4, 1);
    const RunId run = world.running({.workers = 8, .max_failures = 5, .workers_min = 1});
    world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 8, .deadline = Duration{300'000}});
    CHECK(world.run(run).resize_within == Duration{300'000});
    SECTION("it grew by a part: from then on at its commits") {
        for (const char* name : {"n5", "n6"}) world.tell(node(name, 1));
        world.pass(330'000);
        restarts(world, run, "");
        REQUIRE(size_of(world, run) == 6);
        world.tell(node("n7", 1));
        world.pass(30'000);
        REQUIRE(world.attempt(run).request);
        CHECK_FALSE(world.attempt(run).request->deadline);
    }
    SECTION("it came again as it was: the deadline stays") {
        world.exits(run, 0, exit_code(1));
        world.empties(run);
        world.pass(60'000);
        REQUIRE(world.run(run).state == RunState::starting);
        CHECK(world.run(run).resize_within == Duration{300'000});
    }
    SECTION("another size, asked for while there are no workers") {
        world.exits(run, 0, exit_code(1));
        world.empties(run);
        REQUIRE(world.run(run).state == RunState::recovering);
        world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 7});
        CHECK_FALSE(world.run(run).resize_within);
        world.tell(RunResizeAsked{.run = run, .by = "ana", .workers = 6, .deadline = Duration{60'000}});
        CHECK(world.run(run).resize_within == Duration{60'000});
    }
}

TEST_CASE("a run grows beside the seats that a waiting run has reserved, and takes none of them", "[elastic]") {
    World world;
    world.nodes(1, 6, 1);
    world.running({.name = "actor", .gpus = units(1)});
    world.submit({.name = "call", .cpus = 2, .gpus = units(1)});
    const RunId run = world.running({.name = "grows", .workers = 6, .workers_min = 1});
    CHECK(world.attempt(run).workers.size() == 4);  // 6 CPUs minus those of the reservation
    const RunId other = world.running({.name = "other", .workers = 1, .priority = 60});
    world.exits(other, 0, exit_code(0));
    world.empties(other);
    world.pass(60'000);
    CHECK(world.attempt(run).workers.size() == 4);
    CHECK_FALSE(world.attempt(run).request);
}

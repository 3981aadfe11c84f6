// Nodes join, reconnect, drain and leave. Lost messages are sent again.
#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

NodeRegistered again(const std::string& name, std::vector<AttemptId> held, std::int64_t cpus = 4) {
    NodeRegistered event = node(name, cpus);
    event.held = std::move(held);
    return event;
}

}  // namespace

TEST_CASE("a reconnect repeats the orders that may have been lost") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({.workers = 2});
    world.tell(again("n1", {}));  // PrepareNode was lost
    CHECK(all_of<PrepareNode>(world.last) ==
          std::vector<PrepareNode>{{.attempt = {run, 1}, .incarnation = 1, .node = {"n1"}, .claim = true}});
    world.prepare(run);
    world.tell(again("n1", {{run, 1}}));  // LaunchWorkers was lost
    CHECK(all_of<LaunchWorkers>(world.last) == std::vector<LaunchWorkers>{{.attempt = {run, 1}, .node = {"n1"}}});
    world.start(run);
    world.tell(again("n1", {{run, 1}}));
    CHECK(world.last.act.empty());  // the workers run, so there is no order to repeat
    world.tell(RunStopAsked{.run = run, .by = "ana"});
    world.tell(again("n1", {{run, 1}}));  // StopAttempt was lost
    CHECK(all_of<StopAttempt>(world.last).size() == 1);
}

TEST_CASE("a node that forgot its preparation prepares once more, without a second claim, and is launched") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({});
    world.prepare(run);
    world.tell(again("n1", {}));
    CHECK(all_of<PrepareNode>(world.last) ==
          std::vector<PrepareNode>{{.attempt = {run, 1}, .incarnation = 1, .node = {"n1"}, .claim = false}});
    world.tell(NodePrepared{.attempt = {run, 1}, .incarnation = 1, .node = {"n1"}});
    CHECK(all_of<LaunchWorkers>(world.last).size() == 1);
}

TEST_CASE("a run that ended while its agent was away has succeeded: its news is heard before the attempt is given up") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    world.tell(again("n1", {}));
    CHECK(all_of<StopAttempt>(world.last).size() == 1);
    CHECK(world.run(run).state == RunState::running);
    world.exits(run, 0, exit_code(0));  // delivered from the agent's outbox
    world.empties(run);
    CHECK(world.run(run).state == RunState::succeeded);
}

TEST_CASE("a node that came back without its workers fails their attempt") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.workers = 2, .max_failures = 1});
    world.tell(again("n1", {}));
    world.tell(NodeEmptied{.attempt = {run, 1}, .node = {"n1"}});
    CHECK(world.attempt(run).state == AttemptState::stopping);
    CHECK(to_text(world.attempt(run).cause) == "n1 has no process of it any more; the end of rank(s) 0 1 was not seen");
    world.empties(run);
    CHECK(world.run(run).state == RunState::recovering);
}

TEST_CASE("an attempt that nobody knows any more is stopped where it is found") {
    World world;
    world.tell(again("n1", {{.run = {7}, .number = 3}}));
    const auto stops = all_of<StopAttempt>(world.last);
    REQUIRE(stops.size() == 1);
    CHECK(stops[0].attempt == AttemptId{.run = {7}, .number = 3});
}

TEST_CASE("a node that leaves ends its attempts uncounted; a lost node whose ranks had ended well harms nobody") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 2, .max_failures = 0});
    world.exits(run, 1, exit_code(0));
    world.tell(NodeLost{.node = world.node_of(run, 1), .why = "silent"});
    CHECK(world.run(run).state == RunState::running);
    world.tell(NodeLeft{.node = world.node_of(run, 0)});
    CHECK(world.run(run).state == RunState::recovering);
    CHECK(world.run(run).failures == 0);
    CHECK(world.tell(NodeLeft{.node = {"n9"}}).refused->code == ErrorCode::not_found);
}

TEST_CASE("a node that comes back smaller gives up its youngest attempts, uncounted") {
    World world;
    world.nodes(1, 4);
    const RunId old = world.running({.name = "old", .cpus = 2});
    const RunId young = world.running({.name = "young", .cpus = 2});
    world.tell(again("n1", {{old, 1}, {young, 1}}, 3));
    CHECK(world.run(old).state == RunState::running);
    CHECK(world.attempt(young).state == AttemptState::stopping);
    world.empties(young);
    CHECK(world.run(young).state == RunState::recovering);
}

TEST_CASE("the head's restart keeps everything, and its nodes are awaited") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    const Cluster before = world.cluster;
    world.tell(HeadStarted{});
    CHECK(shown_state(world.cluster.nodes.at({"n1"})) == NodeState::lost);
    CHECK(world.run(run).state == RunState::running);
    world.tell(again("n1", {world.attempt_id(run)}));
    CHECK(world.cluster == before);
    CHECK(world.run(run).state == RunState::running);
}

TEST_CASE("a node that prepared for an attempt which is over is told to let go of it") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({.max_failures = 3});
    const AttemptId over = world.attempt_id(run);
    const std::uint32_t incarnation = world.attempt(run).incarnation;
    world.tell(NodeLeft{{"n1"}});
    world.tell(node("n1"));  // the node has joined again, and receives the order to prepare only now
    const Decision late = world.tell(NodePrepared{.attempt = over, .incarnation = incarnation, .node = {"n1"}});
    const auto orders = all_of<StopAttempt>(late);
    REQUIRE(orders.size() == 1);
    CHECK(orders[0].incarnation == incarnation);
    CHECK(late.save.empty());
}

namespace {

constexpr std::int64_t most_memory = amount_at_most.ticks / Amount::per_unit;

NodeRegistered large(const std::string& name, std::int64_t memory = most_memory) {
    NodeRegistered event = node(name, 4, 2);
    event.total["memory"] = units(memory);
    return event;
}

RunSubmitted large_gang(const std::string& name, std::int64_t last) {
    RunSubmitted event = submission({.name = name, .workers = 3});
    for (Bundle& one : event.spec.gang.bundles) one.demand["memory"] = units(most_memory);
    event.spec.gang.bundles.back().demand["memory"] = units(last);
    return event;
}

}  // namespace

TEST_CASE("a cluster may have more of a thing than 64 bits count, over drains, losses and a restart") {
    World world;
    Queues queues;
    queues.rules = {{"default", {}}, {"other", {}}};
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    for (const char* name : {"n1", "n2", "n3"}) world.tell(large(name));
    world.tell(large("n1"));
    world.tell(NodeDrained{.node = {"n2"}, .by = "ana", .reason = ""});
    world.tell(NodeUndrained{{"n2"}});
    world.tell(NodeLost{.node = {"n3"}, .why = "silent"});
    world.tell(large("n3"));
    for (const std::int64_t last : {most_memory, most_memory - 1}) {  // equal bundles, then different ones
        world.tell(large_gang("gang" + std::to_string(last), last));
        REQUIRE(world.last.created);
        const RunId gang = *world.last.created;
        REQUIRE(world.run(gang).state == RunState::starting);
        const RunId none = submit_to(world, "other", {.name = "none" + std::to_string(last), .gpus = units(1)});
        CHECK(world.run(none).state == RunState::starting);
        CHECK(world.cluster.use.at("default").held.at("memory") == Amount{INT64_MAX});
        world.pass(60'000);

        Cluster again = world.cluster;
        again.index.fall_behind();
        decide(again, world.now, HeadStarted{});
        decide(again, world.now, large("n1"));
        CHECK(invariants(again) == std::vector<std::string>{});

        for (const RunId id : {gang, none}) {
            world.prepare(id);
            world.start(id);
            for (std::uint32_t rank = 0; rank < world.attempt(id).workers.size(); ++rank)
                world.exits(id, rank, exit_code(0));
            world.empties(id);
            CHECK(world.run(id).state == RunState::succeeded);
        }
    }
}

TEST_CASE("a node or a worker beyond what is counted is refused, and the bound is told") {
    World world;
    world.nodes(1);
    world.tell(large("n2", most_memory + 1));
    REQUIRE(world.last.refused);
    CHECK(world.last.refused->message ==
          "node n2 offers 400000000000001 memory, an amount is from 0 to 400000000000000");
    CHECK(world.cluster.nodes.size() == 1);
    world.tell(large_gang("gang", most_memory + 1));
    REQUIRE(world.last.refused);
    CHECK(world.last.refused->message ==
          "a worker asks for 400000000000001 memory, an amount is from 0 to 400000000000000");
}

TEST_CASE("after a head's start no run is preempted while a node is awaited") {
    World world;
    world.nodes(2, 1);
    const RunId low = world.running({.name = "low", .priority = 1});
    world.tell(HeadStarted{});
    world.tell(again(world.node_of(low, 0).value, {world.attempt_id(low)}, 1));
    const RunId urgent = world.submit({.name = "urgent", .priority = 90});
    CHECK_FALSE(world.attempt(low).request);
    CHECK(world.run(urgent).state == RunState::queued);
    world.tell(again(world.node_of(low, 0) == NodeId{"n1"} ? "n2" : "n1", {}, 1));
    CHECK(world.run(urgent).state == RunState::starting);
    CHECK(world.run(low).state == RunState::running);
}

TEST_CASE("nodes lost during a start fail the run after a bound") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({.max_failures = -1});
    for (std::uint32_t loss = 1; loss <= limits::failed_starts; ++loss) {
        REQUIRE(world.attempt(run).state == AttemptState::placed);
        world.tell(NodeLost{.node = {"n1"}, .why = "silent"});
        CHECK(world.run(run).failures == 0);
        if (loss == limits::failed_starts) break;
        REQUIRE(world.run(run).state == RunState::recovering);
        world.tell(again("n1", {}));
        world.pass(60'000);
    }
    CHECK(world.run(run).state == RunState::failed);
    CHECK(to_text(world.run(run).reason) == "node n1 was lost: silent (5 attempts in a row could not be prepared)");
}

TEST_CASE("losses of awaited nodes are no failed starts of the run") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({});
    for (std::uint32_t loss = 1; loss <= 2 * limits::failed_starts; ++loss) {
        REQUIRE(world.attempt(run).state == AttemptState::placed);
        world.tell(HeadStarted{});
        world.tell(NodeLost{.node = {"n1"}, .why = "not registered"});
        world.tell(again("n1", {}));
        world.pass(60'000);
    }
    CHECK(world.attempt(run).state == AttemptState::placed);
}

TEST_CASE("agents that restart in each preparation fail the attempt") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({});
    for (int restart = 1; restart <= limits::preparations_forgotten; ++restart) {
        world.tell(again("n1", {}));
        CHECK(all_of<PrepareNode>(world.last).size() == 1);
    }
    world.tell(again("n1", {}));
    CHECK(all_of<StopAttempt>(world.last).size() == 1);
    world.empties(run);
    CHECK(to_text(world.run(run).reason) == "n1 could not prepare: its agent restarted 3 times while it prepared");
    CHECK(world.run(run).failures == 0);
}

TEST_CASE("agents that restart while the head starts harm no run") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({});
    for (int restart = 1; restart <= 2 * limits::preparations_forgotten + 2; ++restart) {
        world.tell(HeadStarted{});
        world.tell(again("n1", {}));
        CHECK(all_of<PrepareNode>(world.last).size() == 1);
    }
    CHECK(world.attempt(run).state == AttemptState::placed);
}

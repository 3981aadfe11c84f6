// Nodes taken out of use: drained with and without a deadline, undrained, quarantined on evidence.
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

TEST_CASE("drain without a deadline: a run with nowhere to go stays until it ends", "[drain]") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({});
    world.tell(NodeDrained{.node = {"n1"}, .by = "ana"});
    CHECK(all_of<RequestCheckpoint>(world.last).size() == 1);
    world.commits(run, "checkpoint_000001-a001");
    CHECK(world.attempt(run).state == AttemptState::running);
    world.tell(node("n2", 1));
    world.commits(run, "checkpoint_000002-a001");  // after the commit the run can move
    CHECK(world.attempt(run).state == AttemptState::stopping);
}

TEST_CASE("nobody undrains a node whose agent ends by itself", "[drain]") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({});
    world.tell(NodeDrained{.node = {"n1"}, .by = "n1", .reason = "SIGTERM", .by_itself = true});
    world.tell(NodeUndrained{{"n1"}});
    REQUIRE(world.last.refused);
    CHECK(world.last.refused->code == ErrorCode::conflict);
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::draining);
    world.tell(node("n1", 1));  // the node's agent registers again
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::ready);
    CHECK(world.attempt(run).state == AttemptState::running);
}

TEST_CASE("a node whose disk is nearly full takes nothing new, keeps what trains, and is back with room", "[drain]") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({});
    const NodeId full = world.node_of(run, 0);
    const NodeDrained by_disk{.node = full, .by = full.value, .reason = "its disk is nearly full", .by_disk = true};
    const auto now = [&]() -> const Node& { return world.cluster.nodes.at(full); };
    world.tell(by_disk);
    CHECK(now().state == NodeState::draining);
    CHECK(to_text(now().state_reason) == "its disk is nearly full");
    // Other nodes have room, but a checkpoint needs space on this node's disk.
    CHECK_FALSE(world.attempt(run).request.has_value());
    world.tell(NodeUndrained{full});
    REQUIRE(world.last.refused);
    CHECK(world.last.refused->code == ErrorCode::conflict);
    world.tell(NodeUndrained{.node = full, .by_disk = true});
    CHECK(now().state == NodeState::ready);

    world.tell(NodeDrained{.node = full, .by = "ana"});  // only a person ends a person's drain
    world.tell(by_disk);
    world.tell(NodeUndrained{.node = full, .by_disk = true});
    CHECK(now().state == NodeState::draining);
    CHECK(to_text(now().state_reason) == "drained by ana");
}

TEST_CASE("drain without a deadline: room that is reserved for another is nowhere to go", "[drain]") {
    World world;
    world.nodes(2, 1);
    const RunId other = world.running({.name = "other"});
    const RunId run = world.running({});
    world.tell(node("n3", 1));
    const RunId gang = world.submit({.name = "gang", .workers = 2, .priority = 60});
    world.tell(NodeDrained{.node = world.node_of(run, 0), .by = "ana"});
    world.commits(run, "checkpoint_000001-a001");
    CHECK(world.attempt(run).state == AttemptState::running);
    world.exits(other, 0, exit_code(0));
    world.empties(other);
    CHECK(world.run(gang).state == RunState::starting);
    world.tell(node("n4", 1));
    world.commits(run, "checkpoint_000002-a001");
    world.empties(run);
    CHECK(world.node_of(run, 0).value == "n4");
}

TEST_CASE("drain without a deadline: what waits behind a run keeps it from nothing", "[drain]") {
    World world;
    world.nodes(2, 1);
    world.running({.name = "other"});
    const RunId run = world.running({});
    world.tell(node("n3", 1));
    world.submit({.name = "gang", .workers = 2, .priority = 40});
    world.tell(NodeDrained{.node = world.node_of(run, 0), .by = "ana"});
    world.commits(run, "checkpoint_000001-a001");
    world.empties(run);
    CHECK(world.node_of(run, 0).value == "n3");
}

TEST_CASE("undrain cancels what has not happened", "[drain]") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({});
    const NodeId node = world.node_of(run, 0);
    world.tell(NodeDrained{.node = node, .by = "ana", .deadline = Duration{60'000}});
    world.tell(NodeUndrained{node});
    CHECK_FALSE(world.attempt(run).request);
    CHECK_FALSE(next_wake(world.cluster));
    world.commits(run, "checkpoint_000001-a001");
    CHECK(world.attempt(run).state == AttemptState::running);
}

TEST_CASE("an elastic run shrinks off a draining node", "[drain]") {
    World world;
    world.nodes(3, 1);
    const RunId run = world.running({.workers = 3, .workers_min = 2});
    world.tell(NodeDrained{.node = {"n2"}, .by = "ana"});
    world.commits(run, "checkpoint_000001-a001");
    world.empties(run);
    CHECK(world.attempt(run).workers.size() == 2);
    CHECK(world.node_of(run, 0).value != "n2");
    CHECK(world.node_of(run, 1).value != "n2");
}

namespace {

// Submits a run that fails once on `where` and ends.
void fails_on(World& world, const std::string& name, const NodeId& where, ExitCause cause = killed(7)) {
    RunSubmitted event = submission({.name = name});
    event.spec.gang.nodes_only = {where};
    world.tell(event);
    const RunId run = *world.last.created;
    world.prepare(run);
    world.start(run);
    cause.detail = "bus error\nand a long traceback";
    world.exits(run, 0, cause);
    world.empties(run);
    REQUIRE(world.run(run).state == RunState::failed);
}

}  // namespace

TEST_CASE("a node on which runs keep failing first is quarantined, with the evidence", "[drain]") {
    World world;
    world.nodes(2);
    fails_on(world, "a", {"n1"});
    fails_on(world, "a", {"n1"});
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::ready);
    fails_on(world, "b", {"n1"});
    const Node& bad = world.cluster.nodes.at({"n1"});
    CHECK(bad.state == NodeState::quarantined);
    CHECK(to_text(bad.state_reason).find("3 attempts of 3 runs failed here first within 60 min") == 0);
    CHECK(to_text(bad.state_reason).find("rank 0 on n1: killed by signal 7") != std::string::npos);
    CHECK(why_out_of_use(bad, JobWords::shown).find("(bus error)") != std::string::npos);
    // Only the first line of each cause is shown.
    CHECK(why_out_of_use(bad, JobWords::shown).find("traceback") == std::string::npos);
    CHECK(why_out_of_use(bad, JobWords::hidden).find("bus error") == std::string::npos);  // other users read this text
    const std::string& note = world.last.note;
    CHECK(note.find("QUARANTINED") != std::string::npos);
    const auto own = note.find("bus error");  // the cause of the run that failed last, the subject of the note
    REQUIRE(own != std::string::npos);
    CHECK(note.find("bus error", own + 1) == std::string::npos);

    const RunId next = world.submit({.name = "next", .cpus = 4});
    CHECK(world.node_of(next, 0).value == "n2");
    world.tell(NodeUndrained{{"n1"}});
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::ready);
    CHECK(world.cluster.nodes.at({"n1"}).failures.empty());
}

TEST_CASE("quarantine by hand: its runs stay, nothing new comes, undrain ends it", "[drain]") {
    World world;
    world.nodes(2, 4);
    const RunId run = world.running({});
    const NodeId bad = world.node_of(run, 0);
    world.tell(NodeQuarantined{.node = bad, .by = "ana", .reason = "odd ECC errors"});
    CHECK(world.last.note == "node " + bad.value + " is QUARANTINED: quarantined by ana: odd ECC errors");
    CHECK(all_of<RequestCheckpoint>(world.last).empty());
    CHECK(world.attempt(run).state == AttemptState::running);
    const RunId next = world.submit({.name = "next"});
    CHECK(world.node_of(next, 0) != bad);
    CHECK(why_out_of_use(world.cluster.nodes.at(bad), JobWords::hidden) == "quarantined by ana: odd ECC errors");
    world.tell(NodeUndrained{bad});
    CHECK(world.cluster.nodes.at(bad).state == NodeState::ready);
    CHECK(world.cluster.nodes.at(bad).state_reason.none());
}

TEST_CASE("quarantine by hand: a lost node comes back in quarantine", "[drain]") {
    World world;
    world.nodes(1);
    world.tell(NodeLost{.node = {"n1"}, .why = "silent"});
    world.tell(NodeQuarantined{.node = {"n1"}, .by = "ana"});
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::lost);
    world.tell(node("n1", 4));
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::quarantined);
}

TEST_CASE("quarantine by hand: refused for a draining and an unknown node", "[drain]") {
    World world;
    world.nodes(1);
    world.tell(NodeDrained{.node = {"n1"}, .by = "ana"});
    REQUIRE(world.tell(NodeQuarantined{.node = {"n1"}, .by = "ana"}).refused);
    CHECK(world.last.refused->message == "node n1 drains: it takes no new workers already");
    CHECK(world.tell(NodeQuarantined{.node = {"n9"}, .by = "ana"}).refused->code == ErrorCode::not_found);
}

TEST_CASE("no quarantine: a success in between, an old failure, the last node in use, switched off", "[drain]") {
    World world;
    world.nodes(2);
    fails_on(world, "a", {"n1"});
    fails_on(world, "b", {"n1"});
    SECTION("a success in between") {
        RunSubmitted good = submission({.name = "good"});
        good.spec.gang.nodes_only = {{"n1"}};
        world.tell(good);
        const RunId run = *world.last.created;
        world.prepare(run);
        world.start(run);
        world.exits(run, 0, exit_code(0));
        world.empties(run);
    }
    SECTION("an old failure") { world.pass(3'600'001); }
    SECTION("the last node in use") { world.tell(NodeDrained{.node = {"n2"}, .by = "ana"}); }
    SECTION("switched off") {
        world.tell(HeadStarted{.wall_ms = 1, .quarantine = QuarantinePolicy{.failures = 0}});
        world.nodes(2);
    }
    fails_on(world, "c", {"n1"});
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::ready);
}

TEST_CASE("broken code blames no node; a shell's 128 + n is a death by a signal", "[drain]") {
    World world;
    world.nodes(2);
    for (const char* name : {"a", "b", "c", "d"}) fails_on(world, name, {"n1"}, exit_code(1));
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::ready);
    for (const char* name : {"e", "f"}) fails_on(world, name, {"n1"}, exit_code(128 + 7));
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::ready);
    fails_on(world, "g", {"n1"}, exit_code(128 + 11));
    CHECK(world.cluster.nodes.at({"n1"}).state == NodeState::quarantined);
    CHECK(to_text(world.cluster.nodes.at({"n1"}).state_reason).find("3 attempts of 3 runs") == 0);
}

TEST_CASE("failures that follow the run are no evidence against a node", "[drain]") {
    World world;
    world.nodes(3, 1);
    for (const char* name : {"a", "b", "c"}) {
        const RunId run = world.running({.name = name, .max_failures = 1});
        world.exits(run, 0, exit_code(1));
        world.empties(run);
        world.pass(2'000);
        world.prepare(run);
        world.start(run);
        world.exits(run, 0, exit_code(1));  // on another node, since the first one is avoided
        world.empties(run);
        REQUIRE(world.run(run).state == RunState::failed);
    }
    for (const auto& [id, node] : world.cluster.nodes) {
        CHECK(node.state == NodeState::ready);
        CHECK(node.failures.empty());
    }
}

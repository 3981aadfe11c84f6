// Which checkpoints are kept.
#include <cmath>

#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

using Names = std::vector<std::string>;

TEST_CASE("by age the newest are kept, and a deletion goes to a ready node of the run") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.retention = {.num_to_keep = 2}});
    for (const char* name : {"c1", "c2", "c3"}) world.commits(run, name);
    CHECK(world.kept(run) == Names{"c2", "c3"});
    CHECK(all_of<DeleteCheckpoint>(world.last) ==
          std::vector<DeleteCheckpoint>{{.run = run, .directory = "c1", .node = {"n1"}}});
    world.tell(node("n1"));  // the order may have been lost
    CHECK(all_of<DeleteCheckpoint>(world.last).size() == 1);
    world.tell(CheckpointDeleted{.run = run, .directory = "c2"});  // nobody was to
    CHECK(world.kept(run) == Names{"c2", "c3"});
    world.tell(CheckpointDeleted{.run = run, .directory = "c1"});
    CHECK(world.cluster.checkpoints.size() == 2);
}

TEST_CASE("by score the best and always the latest; missing and NaN are the worst, ties go to the newer") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.retention = {.num_to_keep = 2, .score_attribute = "acc"}});
    world.commits(run, "c1", {{"acc", 0.9}});
    world.commits(run, "c2", {{"acc", NAN}});
    world.commits(run, "c3", {{"acc", 0.9}});
    CHECK(world.kept(run) == Names{"c1", "c3"});
    world.commits(run, "c4", {{"acc", 0.9}});
    CHECK(world.kept(run) == Names{"c3", "c4"});
    world.commits(run, "c5");
    CHECK(world.kept(run) == Names{"c3", "c4", "c5"});
    world.commits(run, "c6", {{"acc", 0.95}});
    CHECK(world.kept(run) == Names{"c4", "c6"});
}

TEST_CASE("while no report has carried the score attribute nothing is deleted, and that is said once") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.retention = {.num_to_keep = 1, .score_attribute = "acuracy"}});
    const auto said = [&] { return world.last.note.find("acuracy") != std::string::npos; };
    world.commits(run, "c1", {{"accuracy", 0.9}});
    CHECK_FALSE(said());
    world.commits(run, "c2", {{"accuracy", 0.8}});
    CHECK(said());
    world.commits(run, "c3", {{"accuracy", 0.7}});
    CHECK_FALSE(said());
    CHECK(world.kept(run) == Names{"c1", "c2", "c3"});
    SECTION("a NaN is a score that is missing, not one that nobody reports") {
        world.commits(run, "c4", {{"acuracy", NAN}});
        CHECK(world.kept(run) == Names{"c4"});
    }
    SECTION("the first that has it counts, and the others are the worse ones") {
        world.commits(run, "c4", {{"acuracy", 0.1}});
        CHECK(world.kept(run) == Names{"c4"});
        world.commits(run, "c5");
        CHECK(world.kept(run) == Names{"c4", "c5"});
    }
}

TEST_CASE("what waits for its validation is kept, and then counts by what that said") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.retention = {.num_to_keep = 1, .score_attribute = "val"}});
    for (const char* name : {"c1", "c2"}) {
        world.commits(run, name);
        world.tell(CheckpointValidated{.run = run, .directory = name, .pending = true});
    }
    world.commits(run, "c3");
    CHECK(world.kept(run) == Names{"c1", "c2", "c3"});
    world.tell(CheckpointValidated{.run = run, .directory = "c1", .metrics = {{"val", 0.5}, {"odd", NAN}}});
    CHECK(world.kept(run) == Names{"c1", "c2", "c3"});
    world.tell(CheckpointValidated{.run = run, .directory = "c2", .metrics = {{"val", 0.25}}});
    CHECK(world.kept(run) == Names{"c1", "c3"});
    world.commits(run, "c4");
    CHECK(world.kept(run) == Names{"c1", "c4"});
    world.tell(CheckpointValidated{.run = run, .directory = "c2", .pending = true});  // too late: it is gone
    CHECK(world.kept(run) == Names{"c1", "c4"});
}

TEST_CASE("the latest goes with the run's success if so asked, and stays when the run failed or was stopped") {
    const Retention until_success{.num_to_keep = 1, .score_attribute = "acc", .latest_until_success = true};
    const auto trained = [&](World& world) {
        world.nodes(1);
        const RunId run = world.running({.retention = until_success});
        world.commits(run, "c1", {{"acc", 0.9}});
        world.commits(run, "c2", {{"acc", 0.1}});
        CHECK(world.kept(run) == Names{"c1", "c2"});
        return run;
    };
    SECTION("succeeded, and a commit that is heard of later") {
        World world;
        const RunId run = trained(world);
        world.exits(run, 0, exit_code(0));
        world.empties(run);
        CHECK(world.kept(run) == Names{"c1"});
        CHECK(all_of<DeleteCheckpoint>(world.last) ==
              std::vector<DeleteCheckpoint>{{.run = run, .directory = "c2", .node = {"n1"}}});
        world.commits(run, "c3", {{"acc", 0.2}});
        CHECK(world.kept(run) == Names{"c1"});
        world.commits(run, "c4", {{"acc", 0.95}});
        CHECK(world.kept(run) == Names{"c4"});
    }
    SECTION("failed") {
        World world;
        const RunId run = trained(world);
        world.exits(run, 0, exit_code(1));
        world.empties(run);
        CHECK(world.kept(run) == Names{"c1", "c2"});
    }
    SECTION("stopped") {
        World world;
        const RunId run = trained(world);
        world.tell(RunStopAsked{.run = run, .by = "ana"});
        world.exits(run, 0, killed(15));
        world.empties(run);
        CHECK(world.kept(run) == Names{"c1", "c2"});
    }
}

TEST_CASE("lower may be better") {
    World world;
    world.nodes(1);
    const RunId run =
        world.running({.retention = {.num_to_keep = 1, .score_attribute = "loss", .higher_is_better = false}});
    world.commits(run, "c1", {{"loss", 0.1}});
    world.commits(run, "c2", {{"loss", 0.5}});
    world.commits(run, "c3", {{"loss", 0.3}});
    CHECK(world.kept(run) == Names{"c1", "c3"});
}

TEST_CASE("what a live attempt started from is kept until it ends") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.max_failures = 3, .retention = {.num_to_keep = 1}});
    world.commits(run, "c1-a001");
    world.exits(run, 0, killed(9));
    world.empties(run);
    world.pass(1'000);
    world.prepare(run, 0, "c1-a001");
    world.start(run);
    world.commits(run, "c2-a002");
    world.commits(run, "c3-a002");
    CHECK(world.kept(run) == Names{"c1-a001", "c3-a002"});
    world.exits(run, 0, exit_code(0));
    world.empties(run);
    CHECK(world.kept(run) == Names{"c3-a002"});
}

TEST_CASE("a commit said twice counts once; one of a zombie counts only if a later attempt started from it") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.max_failures = 3});
    world.commits(run, "c1-a001");
    world.commits(run, "c1-a001");
    CHECK(world.run(run).checkpoints == 1);
    world.exits(run, 0, killed(9));
    world.empties(run);
    world.pass(1'000);
    world.prepare(run, 0, "c2-a001");
    const auto late = [&](const char* name) {
        world.tell(CheckpointCommitted{.attempt = {run, 1}, .directory = name, .world_size = 1});
    };
    late("c3-a001");
    CHECK(world.run(run).checkpoints == 1);
    late("c2-a001");
    CHECK(world.run(run).checkpoints == 2);
}

TEST_CASE("the late news of an older attempt's commit does not make it the latest") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.max_failures = 3, .retention = {.num_to_keep = 1}});
    world.tell(NodeLost{.node = world.node_of(run, 0), .why = "silent"});
    world.pass(1'000);
    world.prepare(run, 0, "c2-a001");  // committed while nobody heard
    world.start(run);
    world.commits(run, "c2-a002");
    world.exits(run, 0, exit_code(0));
    world.empties(run);
    world.tell(CheckpointCommitted{.attempt = {run, 1}, .directory = "c2-a001", .world_size = 1});
    CHECK(world.kept(run) == Names{"c2-a002"});
    CHECK(latest_checkpoint(world.cluster, run)->directory == "c2-a002");
}

TEST_CASE("an upload that ends after its run's success is still recorded") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    world.exits(run, 0, exit_code(0));
    world.empties(run);
    world.commits(run, "c1-a001");
    CHECK(world.kept(run) == Names{"c1-a001"});
}

// The checkpoints that a run keeps.
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
    world.tell(node("n1"));  // the order is repeated, since it may have been lost
    CHECK(all_of<DeleteCheckpoint>(world.last).size() == 1);
    world.tell(CheckpointDeleted{.run = run, .directory = "c2"});  // no order was sent for c2
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
    const auto noted = [&] { return world.last.note.find("acuracy") != std::string::npos; };
    world.commits(run, "c1", {{"accuracy", 0.9}});
    CHECK_FALSE(noted());
    world.commits(run, "c2", {{"accuracy", 0.8}});
    CHECK(noted());
    world.commits(run, "c3", {{"accuracy", 0.7}});
    CHECK_FALSE(noted());
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
    world.tell(CheckpointValidated{.run = run, .directory = "c2", .pending = true});  // too late, since c2 was deleted
    CHECK(world.kept(run) == Names{"c1", "c4"});
}

TEST_CASE("lost checkpoints are counted until their attempt ends") {
    World world;
    world.nodes(1);
    const RunId run = world.running({});
    const AttemptId id{run, 1};
    world.tell(CheckpointLost{.attempt = id, .why = "the disk is full"});
    world.tell(CheckpointLost{.attempt = id, .why = "the attempt has ended"});
    CHECK(world.cluster.attempts.at(id).checkpoints_lost == 2);
    CHECK(world.cluster.attempts.at(id).last_checkpoint_lost == "the attempt has ended");
    world.tell(CheckpointLost{.attempt = {run, 7}, .why = "of no attempt"});
    world.tell(WorkerExited{id, {0}, {.exit_code = 0}, 0});
    world.tell(NodeEmptied{id, {"n1"}});
    world.tell(CheckpointLost{.attempt = id, .why = "later"});
    CHECK(world.cluster.attempts.at(id).checkpoints_lost == 2);
}

TEST_CASE("what a verification has shown stays with the checkpoint until the next one") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.retention = {.num_to_keep = 2}});
    world.commits(run, "c1");
    const auto checkpoint = [&] { return world.cluster.checkpoints.at({.run = run, .directory = "c1"}); };
    CHECK(checkpoint().verified_wall_ms == 0);
    world.tell(CheckpointVerified{.run = run, .directory = "c1", .wall_ms = 5, .faults = 2});
    CHECK(checkpoint().verified_wall_ms == 5);
    CHECK(checkpoint().faults == 2);
    world.tell(CheckpointVerified{.run = run, .directory = "c1", .wall_ms = 7});
    CHECK(checkpoint().verified_wall_ms == 7);
    CHECK(checkpoint().faults == 0);
    world.tell(CheckpointVerified{.run = run, .directory = "unknown", .wall_ms = 9, .faults = 1});
    CHECK(world.kept(run) == Names{"c1"});
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
    world.prepare(run, 0, "c2-a001");  // the head has not received this commit
    world.start(run);
    world.commits(run, "c2-a002");
    world.exits(run, 0, exit_code(0));
    world.empties(run);
    world.tell(CheckpointCommitted{.attempt = {run, 1}, .directory = "c2-a001", .world_size = 1});
    CHECK(world.kept(run) == Names{"c2-a002"});
    CHECK(latest_checkpoint(world.cluster, run)->directory == "c2-a002");
}

// Submits the second run of a name. Its claim, of attempt 7, finds the `earlier` checkpoints on storage.
static RunId continued(World& world, std::uint32_t num_to_keep, const std::vector<Checkpoint>& earlier) {
    const RunId run =
        world.submit({.max_failures = 1, .retention = {.num_to_keep = num_to_keep, .score_attribute = "acc"}});
    world.tell(NodePrepared{.attempt = {run, 1},
                            .incarnation = world.attempt(run).incarnation,
                            .node = world.node_of(run, 0),
                            .claimed_number = 7,
                            .from = earlier.empty() ? "" : earlier.back().directory,
                            .earlier = earlier});
    world.start(run);
    return run;
}

TEST_CASE("what the earlier runs of a name committed counts for num_to_keep, or is spared") {
    World world;
    world.nodes(1);
    const auto of = [](const char* name, std::uint32_t attempt, std::uint64_t report, double acc, bool spared = false) {
        return Checkpoint{
            .directory = name, .attempt = attempt, .sequence = report, .metrics = {{"acc", acc}}, .spared = spared};
    };
    const RunId run = continued(world, 2,
                                {of("old-a001", 1, 9, 0.1, true), of("best-a002", 2, 1, 0.9), of("bad-a002", 2, 2, 0.2),
                                 of("from-a003", 3, 1, 0.3)});
    CHECK(world.kept(run) == Names{"bad-a002", "best-a002", "from-a003", "old-a001"});  // a claim deletes no checkpoint
    CHECK(latest_checkpoint(world.cluster, run)->directory == "from-a003");
    world.commits(run, "c1", {{"acc", 0.5}});
    CHECK(world.kept(run) == Names{"best-a002", "c1", "from-a003", "old-a001"});  // the run started from one of these
    CHECK(world.last.note.find("bad-a002 (num_to_keep: 2)") != std::string::npos);
    world.commits(run, "c2", {{"acc", 0.6}});
    CHECK(world.kept(run) == Names{"best-a002", "c2", "from-a003", "old-a001"});
    CHECK(world.last.note.find("earlier runs") == std::string::npos);

    SECTION("a later attempt's claim says them again: what is known or was deleted stays so") {
        world.tell(CheckpointDeleted{.run = run, .directory = "bad-a002"});
        world.exits(run, 0, exit_code(1));
        world.empties(run);
        world.pass(60'000);
        CHECK(world.run(run).attempts == 8);
        world.tell(NodePrepared{.attempt = {run, 8},
                                .incarnation = world.attempt(run).incarnation,
                                .node = world.node_of(run, 0),
                                .claimed_number = 8,
                                .from = "c2",
                                .earlier = {of("best-a002", 2, 1, 0.0)}});
        CHECK(world.cluster.checkpoints.at({run, "best-a002"}).metrics.at("acc") == 0.9);
        world.start(run);
        world.commits(run, "c3", {{"acc", 0.1}});
        CHECK(world.kept(run) == Names{"best-a002", "c2", "c3", "old-a001"});
    }
}

TEST_CASE("at most ten checkpoints go with one commit, the worst first") {
    World world;
    world.nodes(1);
    std::vector<Checkpoint> earlier;
    for (int i = 10; i < 35; ++i)
        earlier.push_back({.directory = "old" + std::to_string(i),
                           .attempt = 1,
                           .sequence = static_cast<std::uint64_t>(i),
                           .metrics = {{"acc", i / 100.0}}});
    const RunId run = continued(world, 1, earlier);
    const std::size_t left[] = {16, 7, 2, 2};  // the best one beside the one that the run started from
    for (std::size_t commit = 0; commit < std::size(left); ++commit) {
        world.commits(run, "c" + std::to_string(commit), {{"acc", 0.01}});
        CHECK(all_of<DeleteCheckpoint>(world.last).size() <= 10);
        CHECK(world.kept(run).size() == left[commit]);
        if (commit == 0) CHECK(world.last.note.find("old10, old11, old12") != std::string::npos);
    }
    CHECK(world.kept(run) == Names{"c3", "old34"});
}

TEST_CASE("a deleted checkpoint is gone for every run of its name, and what one starts from is kept for all") {
    World world;
    world.nodes(1);
    const RunId first = world.running({.name = "same", .retention = {.num_to_keep = 1, .score_attribute = "acc"}});
    for (const char* name : {"c1", "c2", "c3"}) world.commits(first, name, {{"acc", 0.1}});
    CHECK(world.kept(first) == Names{"c3"});
    world.exits(first, 0, exit_code(0));
    world.empties(first);
    const RunId second = world.submit({.name = "same", .retention = {.num_to_keep = 1, .score_attribute = "acc"}});
    world.tell(NodePrepared{.attempt = {second, 1},
                            .incarnation = world.attempt(second).incarnation,
                            .node = {"n1"},
                            .claimed_number = 2,
                            .from = "c2",  // requested by name; its deletion has not been carried out
                            .earlier = {{.directory = "c1", .attempt = 1, .sequence = 1, .metrics = {}},
                                        {.directory = "c2", .attempt = 1, .sequence = 2, .metrics = {}}}});
    world.start(second);
    CHECK(world.kept(first) == Names{"c2", "c3"});
    world.tell(CheckpointDeleted{.run = first, .directory = "c1"});
    CHECK(world.kept(second) == Names{"c2"});
}

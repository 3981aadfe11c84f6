// The life of a run, in examples.
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

TEST_CASE("a submitted run is placed at once, prepared, claimed, launched, and runs") {
    World world;
    world.nodes(2, 2);
    const RunId run = world.submit({.workers = 4});
    CHECK(world.last.act ==
          std::vector<Effect>{PrepareNode{.attempt = {run, 1}, .incarnation = 1, .node = {"n1"}, .claim = true},
                              PrepareNode{.attempt = {run, 1}, .incarnation = 1, .node = {"n2"}, .claim = false}});
    CHECK(world.run(run).state == RunState::starting);
    world.prepare(run, 0, "checkpoint_000003-a001");
    CHECK(world.last.act == std::vector<Effect>{LaunchWorkers{.attempt = {run, 1}, .node = {"n1"}},
                                                LaunchWorkers{.attempt = {run, 1}, .node = {"n2"}}});
    CHECK(world.attempt(run).from == "checkpoint_000003-a001");
    world.start(run);
    CHECK(world.run(run).state == RunState::running);
    CHECK(world.attempt(run).workers[3].local_rank == 1);
    CHECK(world.attempt(run).workers[3].node_rank == 1);
}

TEST_CASE("a claim on storage that takes a higher number renumbers the attempt, whoever answers first") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.submit({.workers = 2});
    const auto incarnation = world.attempt(run).incarnation;
    world.tell(NodePrepared{.attempt = {run, 1},
                            .incarnation = incarnation,
                            .node = {"n1"},
                            .claimed_number = 5,
                            .from = "checkpoint_000009-a004",
                            .master_address = "10.0.0.1",
                            .master_port = 20'001});
    CHECK(world.run(run).attempts == 5);
    CHECK_FALSE(world.cluster.attempts.contains({run, 1}));
    // With the requested incarnation.
    world.tell(NodePrepared{.attempt = {run, 1}, .incarnation = incarnation, .node = {"n2"}});
    CHECK(world.attempt(run).state == AttemptState::starting);
    CHECK(all_of<LaunchWorkers>(world.last)[1].attempt == AttemptId{run, 5});
}

TEST_CASE("the first failure is the earliest death that we did not cause, even when its news comes late") {
    World world;
    world.nodes(3, 1);
    const RunId run = world.running({.workers = 3});
    world.exits(run, 2, exit_code(1), 900'000);
    ExitCause ours = killed(15);
    ours.stopped_by_us = true;
    world.exits(run, 0, ours, 950'000);
    CHECK(world.attempt(run).first_failure == Rank{2});
    CHECK(world.attempt(run).first_failure_lead_us == 50'000);
    ExitCause oom = killed(9);
    oom.out_of_memory = true;
    oom.detail = "61.8 of 62 GiB";
    world.exits(run, 1, oom, 488'000);
    CHECK(world.attempt(run).first_failure == Rank{1});
    CHECK(world.attempt(run).first_failure_lead_us == 412'000);
    world.empties(run);
    CHECK(to_text(world.attempt(run).cause) == "rank 1 on n2: killed by signal 9 (out of memory: 61.8 of 62 GiB)");
    CHECK(world.run(run).state == RunState::failed);
    CHECK(to_text(world.run(run).reason) ==
          "rank 1 on n2: killed by signal 9 (out of memory: 61.8 of 62 GiB) (failure 1, failure.max_failures is 0)");
}

TEST_CASE("a rendezvous port that another program took is no failure of the run: five tries, each with another port") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 2});
    ExitCause taken = exit_code(1);
    taken.address_in_use = true;
    for (int tries = 1; tries <= 4; ++tries) {
        // Rank 1 could not reach rank 0. The rank that failed first decides, in any order of the messages.
        if (tries % 2 == 0) world.exits(run, 1, exit_code(1), 6'000);
        world.exits(run, 0, taken, 5'000);
        if (tries % 2 == 1) world.exits(run, 1, exit_code(1), 6'000);
        world.empties(run);
        REQUIRE(world.run(run).state == RunState::recovering);
        CHECK(world.run(run).failures == 0);
        CHECK(world.run(run).nodes_avoided.empty());
        world.pass(world.run(run).retry_at.ms - world.now.ms);
        world.prepare(run);
        world.start(run);
    }
    world.exits(run, 0, taken, 5'000);
    world.empties(run);
    CHECK(world.run(run).state == RunState::failed);
    CHECK(to_text(world.run(run).reason).find("5 attempts in a row") != std::string::npos);
}

TEST_CASE("with fail_fast the first failure ends the run, whatever its cause and whatever max_failures says") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 2, .max_failures = -1, .fail_fast = true});
    const bool lost = GENERATE(false, true);
    if (lost) {
        world.tell(NodeLost{.node = world.node_of(run, 1)});
    } else {
        world.exits(run, 1, killed(9), 5'000);
    }
    world.empties(run);
    CHECK(world.run(run).state == RunState::failed);
    CHECK(to_text(world.run(run).reason).find("failure.fail_fast") != std::string::npos);
}

TEST_CASE("the backoff doubles up to its end") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({.max_failures = -1});
    std::vector<std::int64_t> waits;
    for (int i = 0; i < 11; ++i) {
        world.prepare(run);
        world.start(run);
        world.exits(run, 0, exit_code(1));
        world.empties(run);
        waits.push_back(world.run(run).retry_at.ms - world.now.ms);
        world.pass(waits.back());
    }
    CHECK(waits == std::vector<std::int64_t>{1'000, 2'000, 4'000, 8'000, 16'000, 32'000, 64'000, 128'000, 256'000,
                                             300'000, 300'000});
}

namespace {

// Makes the run's only worker fail. Returns the backoff before the next attempt.
std::int64_t wait_after_failure(World& world, RunId run) {
    world.exits(run, 0, exit_code(1));
    world.empties(run);
    return world.run(run).retry_at.ms == 0 ? 0 : world.run(run).retry_at.ms - world.now.ms;
}

}  // namespace

TEST_CASE("after an attempt that committed, or ran for 30 s, the next one starts at once") {
    World world;
    world.nodes(1);
    const RunId run = world.running({.max_failures = -1});
    world.tell(CheckpointCommitted{.attempt = {run, 1}, .directory = "checkpoint_000001-a001"});
    world.exits(run, 0, exit_code(1));
    world.empties(run);
    CHECK(world.run(run).attempts == 2);  // the backoff has not passed

    world.prepare(run);
    world.start(run);
    world.pass(29'999);
    CHECK(wait_after_failure(world, run) == 1'000);  // the first failure in a row without progress
    world.pass(1'000);
    world.prepare(run);
    world.start(run);
    world.pass(30'000);
    world.exits(run, 0, exit_code(1));
    world.empties(run);
    CHECK(world.run(run).attempts == 4);

    world.prepare(run);
    world.start(run);
    CHECK(wait_after_failure(world, run) == 1'000);  // failures before the progress do not count
}

TEST_CASE("a backoff that the job sets holds after progress too") {
    World world;
    world.nodes(1);
    const auto policy = GENERATE(FailurePolicy{.max_failures = -1, .backoff_set = true},
                                 FailurePolicy{.max_failures = -1, .backoff_first = {1'000}, .backoff_last = {8'000}});
    RunSubmitted event = submission({});
    event.spec.failure = policy;
    world.tell(event);
    const RunId run = world.cluster.runs.begin()->first;
    world.prepare(run);
    world.start(run);
    world.tell(CheckpointCommitted{.attempt = {run, 1}, .directory = "checkpoint_000001-a001"});
    CHECK(wait_after_failure(world, run) == 1'000);
}

TEST_CASE("ranks that outlive another one have no grace; those of a stopped run do") {
    World world;
    world.nodes(2, 1);
    const RunId crashed = world.running({.workers = 2, .max_failures = 3});
    world.exits(crashed, 1, killed(9));
    for (const StopAttempt& one : all_of<StopAttempt>(world.last)) CHECK(one.grace == Duration{0});
    world.empties(crashed);
    world.pass(1'000);
    world.prepare(crashed);
    world.start(crashed);
    world.tell(NodeLost{.node = world.node_of(crashed, 1)});
    REQUIRE(all_of<StopAttempt>(world.last).size() == 1);
    CHECK(all_of<StopAttempt>(world.last)[0].grace == Duration{0});

    World other;
    other.nodes(2, 1);
    const RunId stopped = other.running({.workers = 2});
    other.tell(RunStopAsked{.run = stopped, .by = "ana"});
    CHECK(all_of<StopAttempt>(other.last).size() == 2);
    for (const StopAttempt& one : all_of<StopAttempt>(other.last)) CHECK(one.grace == Duration{10'000});
}

TEST_CASE("late events of an attempt that is over change nothing") {
    World world;
    world.nodes(2, 1);
    const RunId run = world.running({.workers = 2, .max_failures = 3});
    world.exits(run, 1, killed(9));
    world.empties(run);
    world.pass(1'000);
    const AttemptId old{run, 1};
    const Cluster before = world.cluster;
    const std::vector<Event> late{WorkerExited{.attempt = old, .rank = {0}, .cause = exit_code(1)},
                                  WorkerStarted{.attempt = old, .rank = {0}, .pid = 7},
                                  FirstReport{.attempt = old},
                                  NodeEmptied{.attempt = old, .node = {"n1"}},
                                  NodePrepareFailed{.attempt = old, .incarnation = 1, .node = {"n1"}, .why = "late"},
                                  StopMetricReached{.attempt = old, .key = "epoch", .value = 3},
                                  CheckpointCommitted{.attempt = old, .directory = "checkpoint_000001-a001"}};
    for (const Event& event : late) {
        CHECK(world.tell(event) == Decision{});
        CHECK(world.cluster == before);
    }
}

TEST_CASE("a lost node ends the attempt as LOST; when it comes back its old workers are stopped") {
    World world;
    world.nodes(3, 1);
    const RunId run = world.running({.workers = 2, .max_failures = 1});
    const NodeId gone = world.node_of(run, 1);
    world.tell(NodeLost{.node = gone, .why = "silent for 10 s"});
    CHECK(all_of<StopAttempt>(world.last).size() == 1);
    world.empties(run);
    CHECK(world.attempt(run).state == AttemptState::lost);
    CHECK(world.run(run).state == RunState::recovering);
    auto back = node(gone.value, 1);
    back.held = {{run, 1}};
    world.tell(back);
    const auto stops = all_of<StopAttempt>(world.last);
    REQUIRE(stops.size() == 1);
    CHECK(stops[0].attempt == AttemptId{run, 1});
    CHECK(stops[0].incarnation == 1);
}

TEST_CASE("a preparation that fails is retried uncounted, five times at most; a permanent one ends the run") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({});
    for (int i = 0; i < 5; ++i) {
        CHECK(world.run(run).state == RunState::starting);
        world.tell(NodePrepareFailed{.attempt = world.attempt_id(run),
                                     .incarnation = world.attempt(run).incarnation,
                                     .node = {"n1"},
                                     .why = "no route to n2"});
        world.empties(run);
        world.pass(60'000);
    }
    CHECK(world.run(run).state == RunState::failed);
    CHECK(world.run(run).failures == 0);
    CHECK(to_text(world.run(run).reason) ==
          "n1 could not prepare: no route to n2 (5 attempts in a row could not be prepared)");
    const RunId other = world.submit({.max_failures = 9});
    world.tell(NodePrepareFailed{.attempt = world.attempt_id(other),
                                 .incarnation = world.attempt(other).incarnation,
                                 .node = {"n1"},
                                 .why = "/mnt/x does not exist",
                                 .permanent = true});
    world.empties(other);
    CHECK(world.run(other).state == RunState::failed);
    CHECK(to_text(world.run(other).reason) == "n1 could not prepare: /mnt/x does not exist");
}

TEST_CASE("stop: a running run ends STOPPED once empty, a queued one at once, a finished one is refused") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({.name = "first", .max_failures = 9});
    const RunId queued = world.submit({.name = "second"});
    world.tell(RunStopAsked{.run = queued, .by = "ana"});
    CHECK(world.run(queued).state == RunState::stopped);
    world.tell(RunStopAsked{.run = run, .by = "ana"});
    CHECK(world.run(run).state == RunState::stopping);
    ExitCause ours = killed(15);
    ours.stopped_by_us = true;
    world.exits(run, 0, ours);
    world.empties(run);
    CHECK(world.run(run).state == RunState::stopped);
    CHECK(to_text(world.run(run).reason) == "stopped by ana");
    world.pass(600'000);
    CHECK(world.run(run).attempts == 1);  // a stopped run does not start again
    CHECK(world.tell(RunStopAsked{.run = run, .by = "ana"}).refused->code == ErrorCode::conflict);
    CHECK(world.tell(RunStopAsked{.run = {99}, .by = "ana"}).refused->code == ErrorCode::not_found);
}

TEST_CASE("stopping a run that is failing ends it STOPPED, not in another attempt") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({.max_failures = 9});
    world.exits(run, 0, killed(9));
    world.tell(RunStopAsked{.run = run, .by = "ana"});
    world.empties(run);
    CHECK(world.run(run).state == RunState::stopped);
    CHECK(world.attempt(run).state == AttemptState::failed);
}

TEST_CASE("a live name is taken, the same submission key is the same run") {
    World world;
    world.nodes(1, 4);
    const RunId run = world.submit({.name = "gpt", .submit_key = "k1"});
    world.tell(submission({.name = "gpt", .submit_key = "k1"}));
    CHECK(world.last.created == run);
    CHECK(world.last.save.empty());
    world.tell(submission({.name = "gpt"}));
    CHECK(world.last.refused->code == ErrorCode::conflict);
    CHECK(world.last.refused->message == "run \"gpt\" (c0ffee-1) is STARTING under this name");
}

TEST_CASE("queue_time counts from the moment that nothing holds a run back any more") {
    World world;
    world.nodes(1, 1);
    const RunId first = world.running({.name = "first"});
    RunSubmitted event = submission({.name = "grid", .queue_time = Duration{5'000}});
    event.array = {1, 2};
    event.array_parallel = 1;
    event.spec.after = {{.run = first}};
    world.tell(event);
    const RunId one = *world.last.created, two{one.value + 1};
    world.pass(60'000);
    CHECK(world.run(one).state == RunState::queued);
    world.submit({.name = "urgent", .priority = 90});  // takes the room that `first` frees
    world.exits(first, 0, exit_code(0));
    world.empties(first);
    CHECK(world.run(one).state == RunState::queued);
    world.pass(4'999);
    CHECK(world.run(one).state == RunState::queued);
    world.pass(1);
    CHECK(to_text(world.run(one).reason) == "it was not placed within limits.queue_time");
    world.pass(4'999);  // the array's limit has held it back until now
    CHECK(world.run(two).state == RunState::queued);
    world.pass(1);
    CHECK(world.run(two).state == RunState::failed);
}

TEST_CASE("wall_time stands still while a run waits for other seats, since it had to leave its own") {
    World world;
    Queues queues;
    queues.rules = {{"default", {.preempt = true}}};
    queues.preemption_grace = Duration{10'000};
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.nodes(1, 1);
    const RunId run = world.running({.name = "long", .priority = 10, .wall_time = Duration{100'000}});
    world.pass(50'000);
    const RunId urgent = world.submit({.name = "urgent", .priority = 90});
    world.commits(run, "checkpoint_000001-a001");
    world.empties(run);
    world.prepare(urgent);
    world.start(urgent);
    world.pass(1'000'000);
    CHECK(world.run(run).state == RunState::queued);
    world.exits(urgent, 0, exit_code(0));
    world.empties(urgent);
    world.prepare(run);
    world.start(run);
    world.pass(49'999);
    CHECK(world.run(run).state == RunState::running);
    world.pass(1);
    CHECK(to_text(world.run(run).reason) == "limits.wall_time was reached");
}

TEST_CASE("only a finished run is removed, with everything of it") {
    World world;
    world.nodes(1, 1);
    const RunId run = world.running({});
    world.commits(run, "checkpoint_000001-a001");
    CHECK(world.tell(RunRemoved{run}).refused->code == ErrorCode::conflict);
    world.exits(run, 0, exit_code(0));
    world.empties(run);
    world.tell(RunRemoved{run});
    CHECK(world.cluster.runs.empty());
    CHECK(world.cluster.attempts.empty());
    CHECK(world.cluster.checkpoints.empty());
}

TEST_CASE("a run that may keep no more attempts fails", "[life]") {
    World world;
    world.nodes(1);
    const RunId run = world.submit({.name = "flaky", .max_failures = 1'000});
    world.prepare(run);
    world.start(run);
    world.tell(UserLimitReached{.run = run, .limit = "ann has no room"});
    CHECK(world.run(run).state == RunState::running);
    world.exits(run, 0, exit_code(1));
    world.empties(run);
    REQUIRE(world.run(run).state == RunState::recovering);
    world.tell(UserLimitReached{.run = run, .limit = "ann has no room"});
    CHECK(world.run(run).state == RunState::failed);
    CHECK(to_text(world.run(run).reason) == "rank 0 on n1: exited with code 1 (no further attempt: ann has no room)");
}

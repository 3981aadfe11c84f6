// The causes of a run's time: examples with exact numbers, and random timelines whose causes must sum to the wall time.
#include <map>
#include <random>

#include "scheduler/goodput/time_by_cause.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

std::map<std::string, std::int64_t> causes_of(const World& world, RunId id, const RankWaits& waits = {}) {
    const TimeByCause time =
        time_by_cause(world.cluster, world.run(id), world.now, [&](const AttemptId&) { return waits; });
    std::map<std::string, std::int64_t> out;
    for (const TimeCause cause : time_causes)
        if (time[cause].ms != 0) out[to_text(cause)] = time[cause].ms;
    return out;
}
using Causes = std::map<std::string, std::int64_t>;

// Submits a run that waits 5 s in the queue, prepares for 2 s and starts for 1 s.
RunId running_after_eight_seconds(World& world, Job job) {
    const RunId id = world.submit(job);
    world.pass(5'000);
    world.nodes(1);
    world.pass(2'000);
    world.prepare(id);
    world.pass(1'000);
    world.start(id);
    return id;
}

}  // namespace

TEST_CASE("a run that waits, starts and trains has a cause for each second") {
    World world;
    const RunId id = running_after_eight_seconds(world, {});
    world.pass(10'000);
    CHECK(causes_of(world, id) == Causes{{"queue", 5'000}, {"start", 3'000}, {"productive", 10'000}});
    CHECK(time_by_cause(world.cluster, world.run(id), world.now, {}).goodput() == 10.0 / 13);
}

TEST_CASE("a death is detected, the next attempt scheduled, started, restored, and does again what was lost") {
    World world;
    const RunId id = running_after_eight_seconds(world, {.workers = 2, .max_failures = 1});
    world.pass(4'000);
    world.tell(CheckpointCommitted{
        .attempt = world.attempt_id(id), .directory = "c1", .world_size = 2, .uploaded_in = {1'000}});
    world.pass(6'000);
    world.tell(WorkerExited{.attempt = world.attempt_id(id), .rank = {1}, .cause = killed(9), .ago = {500}});
    world.pass(250);
    world.empties(id);
    REQUIRE(world.run(id).attempts == 2);  // no backoff, since the attempt has committed a checkpoint
    world.pass(2'000);
    world.prepare(id, 0, "c1");
    world.pass(3'000);
    world.start(id);
    // The attempt trained for 9.5 s. The checkpoint contains the first 3 s of them.
    Causes expected{{"queue", 5'000}, {"start", 5'000}, {"detect", 750}, {"restore", 3'000}, {"productive", 9'500}};
    CHECK(causes_of(world, id) == expected);
    world.pass(4'000);
    expected["replay"] = 4'000;
    CHECK(causes_of(world, id) == expected);
    world.pass(10'000);
    expected["replay"] = 6'500;
    expected["productive"] += 7'500;
    CHECK(causes_of(world, id) == expected);
}

TEST_CASE("an attempt that fails while it does again what was lost adds nothing to that") {
    World world;
    const RunId id = running_after_eight_seconds(world, {.max_failures = 2});
    const auto fails = [&] {
        world.exits(id, 0, killed(9));
        world.empties(id);
        world.pass(4'000);
        world.prepare(id);
        world.start(id);
    };
    world.pass(10'000);
    fails();
    world.pass(3'000);
    fails();
    world.pass(11'000);
    CHECK(causes_of(world, id).at("replay") == 3'000 + 10'000);
    CHECK(causes_of(world, id).at("productive") == 10'000 + 1'000);
}

TEST_CASE("half the workers take twice as long to do it again") {
    World world;
    world.nodes(1);
    const RunId id = world.running({.workers = 4, .workers_min = 2});
    world.pass(10'000);
    Attempt half = world.attempt(id);
    world.exits(id, 0, killed(9));
    world.empties(id);
    half.id.number = 2;
    half.workers.resize(2);
    half.placed_at = half.prepared_at = half.started_at = world.now;
    Cluster cluster = world.cluster;
    cluster.attempts[half.id] = half;
    Run run = world.run(id);
    run.state = RunState::running;
    run.ended = {};
    const auto at = [&](std::int64_t ms) { return time_by_cause(cluster, run, {world.now.ms + ms}, {}); };
    CHECK(at(19'000)[TimeCause::replay] == Duration{19'000});
    CHECK(at(25'000)[TimeCause::replay] == Duration{20'000});
    CHECK(at(25'000)[TimeCause::productive] == Duration{15'000});
}

TEST_CASE("a silent node's silence is detection; a preempted run's end is scheduling; a good end stores checkpoints") {
    World world;
    world.nodes(1);
    const RunId lost = world.running({.name = "lost", .max_failures = 1});
    world.pass(30'000);
    world.tell(NodeLost{.node = {"n1"}, .why = "silent", .silent = {10'000}});
    CHECK(causes_of(world, lost) == Causes{{"productive", 20'000}, {"detect", 10'000}});

    World other;
    other.nodes(1);
    const RunId stopped = other.running({.name = "stopped"});
    other.pass(5'000);
    other.tell(RunStopAsked{.run = stopped, .by = "ana"});
    other.pass(2'000);
    other.empties(stopped);
    other.pass(9'000);
    CHECK(causes_of(other, stopped) == Causes{{"productive", 5'000}, {"schedule", 2'000}});

    const RunId done = other.running({.name = "done"});
    other.pass(5'000);
    other.exits(done, 0, exit_code(0));
    other.pass(3'000);
    other.empties(done);
    CHECK(causes_of(other, done) == Causes{{"productive", 5'000}, {"checkpoint", 3'000}});
}

TEST_CASE("waits take from the time in which the workers trained, in the order of the list and no more than there is") {
    World world;
    world.nodes(1);
    const RunId id = world.running({});
    world.pass(10'000);
    CHECK(causes_of(world, id, {.checkpoint = {1'000}, .data = {4'000}, .straggler = {2'000}}) ==
          Causes{{"checkpoint", 1'000}, {"data", 4'000}, {"straggler", 2'000}, {"productive", 3'000}});
    CHECK(causes_of(world, id, {.checkpoint = {1'000}, .data = {8'000}, .straggler = {2'000}}) ==
          Causes{{"checkpoint", 1'000}, {"data", 8'000}, {"straggler", 1'000}});
    CHECK(causes_of(world, id, {.checkpoint = {-5}, .data = {1LL << 60}, .straggler = {2'000}}) ==
          Causes{{"data", 10'000}});
}

TEST_CASE("of what is done again no second is counted as a wait too") {
    World world;
    world.nodes(1);
    const RunId id = world.running({.max_failures = 1});
    world.pass(10'000);
    world.exits(id, 0, killed(9));
    world.empties(id);
    world.pass(1'000);
    world.prepare(id);
    world.start(id);
    world.pass(20'000);
    // Each attempt waited 4 s for data. The second one replayed the work of the first in half of its time.
    const Causes causes = causes_of(world, id, {.data = {4'000}});
    CHECK(causes.at("replay") == 10'000);
    CHECK(causes.at("data") == 4'000 + 2'000);
    CHECK(causes.at("productive") == 6'000 + 8'000);
}

TEST_CASE("random timelines: the causes sum to the wall time, and none is negative") {
    for (std::uint32_t seed = 0; seed < 2'000; ++seed) {
        std::mt19937 dice(seed);
        const auto number = [&](std::int64_t most) {
            return std::uniform_int_distribution<std::int64_t>(0, most)(dice);
        };
        Cluster cluster;
        Run run;
        run.id = {1};
        run.submitted = {1 + number(10'000)};
        std::int64_t now = run.submitted.ms;
        const std::int64_t attempts = number(5);
        // Includes invalid records: times out of order, and missing times.
        const bool sound = number(3) != 0;
        const auto later = [&]() -> Time {
            if (!sound) return {number(60'000)};
            return {now += number(5'000)};
        };
        for (std::int64_t i = 1; i <= attempts; ++i) {
            Attempt attempt;
            attempt.id = {.run = run.id, .number = static_cast<std::uint32_t>(i)};
            attempt.workers.resize(static_cast<std::size_t>(number(4)));
            if (number(1) == 0) attempt.from = "c";
            attempt.placed_at = later();
            attempt.prepared_at = later();
            if (number(4) != 0) attempt.started_at = later();
            attempt.work_before = {number(20'000)};
            attempt.state = AttemptState::running;
            if (i < attempts || number(1) == 0) {
                attempt.work_ended = later();
                attempt.ended_at = later();
                constexpr std::array ends = {AttemptState::succeeded, AttemptState::failed, AttemptState::stopped,
                                             AttemptState::lost};
                attempt.state = ends[static_cast<std::size_t>(number(3))];
            }
            cluster.attempts[attempt.id] = attempt;
        }
        const Time end{now + number(5'000)};
        if (number(1) == 0) run.state = RunState::failed, run.ended = end;
        const TimeByCause time = time_by_cause(cluster, run, end, [&](const AttemptId&) {
            return RankWaits{.checkpoint = {number(9'000) - 10}, .data = {number(9'000)}, .straggler = {number(9'000)}};
        });
        CAPTURE(seed);
        REQUIRE(time.wall() == end - run.submitted);
        for (const TimeCause cause : time_causes) REQUIRE(time[cause].ms >= 0);
        REQUIRE(time.goodput() >= 0);
        REQUIRE(time.goodput() <= 1);
    }
}

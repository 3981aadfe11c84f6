// Runs that wait for other runs, and job arrays.
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

void ends(World& world, RunId run, ExitCause cause) {
    world.prepare(run);
    world.start(run);
    world.exits(run, 0, std::move(cause));
    world.empties(run);
}

RunSubmitted array_of(std::vector<std::uint32_t> indices, std::uint32_t parallel) {
    RunSubmitted event = submission({.name = "grid", .submit_key = "k"});
    event.array = std::move(indices);
    event.array_parallel = parallel;
    return event;
}

std::vector<std::string> live_names(const Cluster& cluster) {
    std::vector<std::string> names;
    for (const auto& [id, run] : cluster.runs)
        if (run.attempts > 0 && !terminal(run.state)) names.push_back(run.name);
    return names;
}

}  // namespace

TEST_CASE("a run waits for its predecessor, and starts when that has succeeded", "[after]") {
    World world;
    world.nodes(2);
    const RunId first = world.submit({.name = "prepare"});
    const RunId second = world.submit({.name = "train", .after = {{.run = first}}});
    CHECK(world.run(second).state == RunState::queued);
    CHECK(to_text(world.run(second).reason) == "waits for prepare to succeed");
    ends(world, first, exit_code(0));
    CHECK(world.run(second).state == RunState::starting);
}

TEST_CASE("a predecessor that cannot succeed any more ends those that wait for it, along the chain", "[after]") {
    World world;
    world.nodes(2);
    const RunId first = world.submit({.name = "prepare"});
    const RunId second = world.submit({.name = "train", .after = {{.run = first}}});
    const RunId third = world.submit({.name = "export", .after = {{.run = second}}});
    const RunId cleanup = world.submit({.name = "cleanup", .after = {{.run = first, .what = AfterWhat::ended}}});
    ends(world, first, exit_code(1));
    CHECK(world.run(second).state == RunState::failed);
    CHECK(to_text(world.run(second).reason) == "it was to start after prepare, which is FAILED");
    CHECK(world.run(third).state == RunState::failed);
    CHECK(world.run(cleanup).state == RunState::starting);
}

TEST_CASE("a run that goes on as one of an array has its index, and waits for none of the others", "[after]") {
    World world;
    world.nodes(2);
    world.tell(array_of({1, 2}, 1));
    RunSubmitted restored = submission({.name = "grid-3"});
    restored.resume = true;
    restored.member_of = "grid";
    restored.member_index = 3;
    world.tell(restored);
    const Run& run = world.run(*world.last.created);
    CHECK((run.name == "grid-3" && run.array == "grid" && run.array_index == 3));
    CHECK(live_names(world.cluster) == std::vector<std::string>{"grid-1", "grid-3"});
    ends(world, run.id, exit_code(0));
    CHECK(live_names(world.cluster) == std::vector<std::string>{"grid-1"});
}

TEST_CASE("a stopped predecessor stops those that wait for it", "[after]") {
    World world;
    const RunId first = world.submit({.name = "prepare"});
    const RunId second = world.submit({.name = "train", .after = {{.run = first}}});
    world.tell(RunStopAsked{.run = first, .by = "ana"});
    CHECK(world.run(second).state == RunState::stopped);
}

TEST_CASE("a predecessor that is over already counts, or is refused", "[after]") {
    World world;
    world.nodes(1);
    const RunId good = world.submit({.name = "good"});
    ends(world, good, exit_code(0));
    const RunId bad = world.submit({.name = "bad"});
    ends(world, bad, exit_code(1));
    CHECK(world.run(world.submit({.name = "a", .after = {{.run = good}}})).state == RunState::starting);
    CHECK(world.tell(submission({.name = "b", .after = {{.run = bad}}})).refused->code == ErrorCode::conflict);
    CHECK(world.tell(submission({.name = "b", .after = {{.run = {77}}}})).refused->code == ErrorCode::not_found);
    CHECK(world.run(world.submit({.name = "c", .after = {{.run = bad, .what = AfterWhat::ended}}})).after.empty());
}

TEST_CASE("an array is one submission of several runs, of which so many run at a time", "[after]") {
    World world;
    world.nodes(1, 8);
    world.tell(array_of({1, 2, 3, 5}, 2));
    REQUIRE(world.last.created);
    CHECK(world.cluster.runs.size() == 4);
    CHECK(live_names(world.cluster) == std::vector<std::string>{"grid-1", "grid-2"});
    const Run& last = world.run({world.last.created->value + 3});
    CHECK(last.name == "grid-5");
    CHECK(last.array_index == 5);
    CHECK(to_text(last.reason) == "array grid runs at most 2 at a time");
    ends(world, *world.last.created, exit_code(0));
    CHECK(live_names(world.cluster) == std::vector<std::string>{"grid-2", "grid-3"});
}

TEST_CASE("an array submitted again with its key is answered by the first, and a taken name refuses all", "[after]") {
    World world;
    world.nodes(1);
    world.tell(array_of({1, 2}, 0));
    const RunId first = *world.last.created;
    CHECK(world.tell(array_of({1, 2}, 0)).created == first);
    CHECK(world.cluster.runs.size() == 2);
    RunSubmitted other = array_of({2, 3}, 0);
    other.submit_key = "other";
    CHECK(world.tell(other).refused->code == ErrorCode::conflict);
    CHECK(world.cluster.runs.size() == 2);
}

TEST_CASE("the first run of an array is removed: its key still finds the others", "[after]") {
    World world;
    world.nodes(1);
    world.tell(array_of({1, 2}, 0));
    const RunId first = *world.last.created, second{first.value + 1};
    ends(world, first, exit_code(0));
    world.tell(RunRemoved{.run = first});
    CHECK(world.tell(array_of({1, 2}, 0)).created == second);
    CHECK(world.cluster.runs.size() == 1);
}

TEST_CASE("a member of an array ends while the array waits for another run: the next one takes its place", "[after]") {
    World world;
    world.nodes(1);
    const RunId before = world.submit({.name = "before"});
    RunSubmitted event = array_of({1, 2}, 1);
    event.spec.after.push_back({.run = before});
    world.tell(event);
    const RunId first = *world.last.created, second{first.value + 1};
    world.tell(RunStopAsked{.run = first, .by = "ana"});
    ends(world, before, exit_code(0));
    CHECK(world.run(second).state == RunState::starting);
}

// Runs that wait for other runs, and job arrays.
#include <algorithm>

#include "scheduler/model/limits.hpp"
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

std::vector<std::uint32_t> numbers(std::uint32_t count) {
    std::vector<std::uint32_t> out;
    for (std::uint32_t number = 0; number < count; ++number) out.push_back(number);
    return out;
}

// Returns the largest number of runs that one event has made.
std::size_t most_made(World& world) {
    std::size_t most = world.cluster.runs.size();
    for (std::size_t before = most; !world.cluster.arrays.empty(); before = world.cluster.runs.size()) {
        world.tell(TimePassed{});
        most = std::max(most, world.cluster.runs.size() - before);
    }
    return most;
}

std::vector<std::string> live_names(const Cluster& cluster) {
    std::vector<std::string> names;
    for (const auto& [id, run] : cluster.runs)
        if (run.attempts > 0 && !terminal(run.state)) names.push_back(run.name);
    return names;
}

}  // namespace

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

TEST_CASE("a long array is made in slices, with the ids that it took", "[after]") {
    World world;
    world.nodes(1);
    world.tell(array_of(numbers(1'000), 0));
    const RunId first = *world.last.created;
    const RunId behind = world.submit({.name = "behind"});
    CHECK(behind.value == first.value + 1'000);
    CHECK(next_wake(world.cluster) == world.cluster.meta.now);
    CHECK(most_made(world) <= limits::array_slice_runs + 1);
    CHECK(world.cluster.runs.size() == 1'001);
    CHECK(world.run({first.value + 999}).name == "grid-999");
    CHECK(next_wake(world.cluster) == std::nullopt);
}

TEST_CASE("names of a pending array's runs are taken", "[after]") {
    World world;
    world.tell(array_of(numbers(600), 0));
    CHECK(world.tell(submission({.name = "grid-599"})).refused->code == ErrorCode::conflict);
    RunSubmitted other = array_of({599, 600}, 0);
    other.submit_key = "other";
    CHECK(world.tell(other).refused->code == ErrorCode::conflict);
    CHECK_FALSE(world.tell(submission({.name = "grid-0599"})).refused);
    CHECK_FALSE(world.tell(submission({.name = "grid-600"})).refused);
}

TEST_CASE("a pending array is continued by the next head", "[after]") {
    World world;
    world.tell(array_of(numbers(600), 0));
    Cluster loaded;
    for (const auto& [id, run] : world.cluster.runs) apply(loaded, run);
    for (const auto& [first, array] : world.cluster.arrays) apply(loaded, array);
    apply(loaded, world.cluster.meta);
    decide(loaded, world.now, HeadStarted{});
    while (next_wake(loaded)) decide(loaded, world.now, TimePassed{});
    CHECK(loaded.runs.size() == 600);
    CHECK(invariants(loaded) == std::vector<std::string>{});
}

TEST_CASE("the made runs of an array are stopped and removed: the others follow", "[after]") {
    World world;
    world.nodes(1, 8);
    world.tell(array_of(numbers(600), 2));
    const std::uint64_t first = world.last.created->value, made = world.cluster.runs.size();
    for (std::uint64_t id = first + 2; id < first + made; ++id) world.tell(RunStopAsked{.run = {id}, .by = "ana"});
    for (const std::uint64_t id : {first, first + 1}) ends(world, {id}, exit_code(0));
    for (std::uint64_t id = first; id < first + made; ++id) world.tell(RunRemoved{.run = {id}});
    CHECK(world.cluster.runs.empty());
    most_made(world);
    CHECK(world.cluster.runs.size() == 600 - made);
    const std::string next = "grid-" + std::to_string(made), second = "grid-" + std::to_string(made + 1);
    CHECK(live_names(world.cluster) == std::vector<std::string>{next, second});
}

TEST_CASE("a predecessor fails while an array is made: all runs end", "[after]") {
    World world;
    world.nodes(1);
    const RunId before = world.submit({.name = "before"});
    RunSubmitted event = array_of(numbers(600), 0);
    event.spec.after.push_back({.run = before});
    world.tell(event);
    ends(world, before, exit_code(1));
    most_made(world);
    CHECK(world.cluster.runs.size() == 601);
    for (const auto& [id, run] : world.cluster.runs) CHECK(run.state == RunState::failed);
}

TEST_CASE("each user's oldest array is continued in one slice", "[after]") {
    World world;
    RunSubmitted of_ana = array_of(numbers(2'000), 0), of_bob = array_of(numbers(600), 0);
    of_bob.name = "bobs";
    of_bob.user = "bob";
    world.tell(of_ana);
    world.tell(of_bob);
    const auto of_user = [&](const std::string& user) {
        return std::count_if(world.cluster.runs.begin(), world.cluster.runs.end(),
                             [&](const auto& run) { return run.second.user == user; });
    };
    const auto before = of_user("bob");
    const std::size_t all = world.cluster.runs.size();
    world.tell(TimePassed{});
    CHECK(of_user("bob") > before);
    CHECK(world.cluster.runs.size() <= all + limits::array_slice_runs);
}

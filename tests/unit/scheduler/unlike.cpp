// Many waiting runs with different demands. The cost of an event does not grow with their number.
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

constexpr int waiting = 100;
constexpr std::uint64_t few = 8;  // bound on the searches for room during an event that concerns at most one run

// Ten nodes with four CPUs each, three of which are in use.
struct UnlikeRuns {
    World world;
    std::vector<RunId> busy, waits;
    UnlikeRuns() {
        world.nodes(10, 4);
        for (int i = 0; i < 10; ++i)
            busy.push_back(
                world.running({.name = "busy" + std::to_string(i), .cpus = 3, .placement = Strategy::spread}));
    }
    void wait(RunSubmitted event) {
        world.tell(event);
        REQUIRE(world.last.created);
        waits.push_back(*world.last.created);
        REQUIRE(world.run(waits.back()).state == RunState::queued);
    }
    template <class Change>
    std::uint64_t searches_of(const Change& change) {
        const std::uint64_t before = world.cluster.index.searches();
        change();
        return world.cluster.index.searches() - before;
    }
    void ends(const std::string& node) {
        for (const RunId id : busy) {
            if (world.run(id).state != RunState::running || world.node_of(id, 0).value != node) continue;
            world.exits(id, 0, exit_code(0));
            world.empties(id);
            return;
        }
        FAIL("nobody runs on " + node);
    }
    std::size_t started() const {
        return static_cast<std::size_t>(std::count_if(
            waits.begin(), waits.end(), [&](RunId id) { return world.run(id).state == RunState::starting; }));
    }
};

}  // namespace

TEST_CASE("runs that name nodes are looked at again only when one of these has more room") {
    UnlikeRuns crowd;
    for (int i = 0; i < waiting; ++i) {
        RunSubmitted event = submission({.name = "named" + std::to_string(i), .cpus = 2});
        event.spec.gang.nodes_only = {{"n1"}, {"absent" + std::to_string(i)}};
        crowd.wait(event);
    }
    RunSubmitted other = submission({.name = "other", .cpus = 4});
    other.spec.gang.nodes_only = {{"n10"}};
    CHECK(crowd.searches_of([&] { crowd.world.tell(other); }) <= few);
    CHECK(crowd.searches_of([&] { crowd.ends("n2"); }) <= few);
    CHECK(crowd.started() == 0);
    CHECK(crowd.searches_of([&] { crowd.world.tell(node("n11", 4)); }) <= few);
    crowd.ends("n1");
    CHECK(crowd.started() == 2);
    CHECK(crowd.world.run(crowd.waits[0]).state == RunState::starting);
}

TEST_CASE("runs that ask for amounts of their own are looked at again only when a node has as much") {
    UnlikeRuns crowd;
    for (int i = 0; i < waiting; ++i) {
        RunSubmitted event = submission({.name = "odd" + std::to_string(i), .cpus = 3});
        event.spec.gang.bundles[0].demand["CPU"].ticks += 1 + i;
        crowd.wait(event);
    }
    CHECK(crowd.searches_of([&] { crowd.world.tell(submission({.name = "small", .cpus = 1})); }) <= few);
    CHECK(crowd.searches_of([&] { crowd.world.tell(node("n11", 3)); }) <= few);
    CHECK(crowd.started() == 0);
    crowd.world.tell(node("n12", 4));
    CHECK(crowd.started() == 1);
    CHECK(crowd.world.run(crowd.waits[0]).state == RunState::starting);
}

TEST_CASE("a gang of one worker per rack that finds one rack taken is looked at again only when that one has room") {
    World world;
    Labels rack;
    for (int i = 1; i <= 12; ++i) {
        NodeRegistered one = node("n" + std::to_string(i), 4);
        one.labels["rack"] = std::to_string(i);
        world.tell(one);
    }
    const auto on_racks = [](const std::string& name) {
        RunSubmitted event = submission({.name = name, .workers = 12, .cpus = 3});
        for (std::size_t i = 0; i < 12; ++i)
            event.spec.gang.bundles[i].selector = {{.key = "rack", .values = {std::to_string(i + 1)}}};
        return event;
    };
    RunSubmitted busy = submission({.name = "busy", .cpus = 3});
    busy.spec.gang.nodes_only = {{"n12"}};
    world.tell(busy);
    const RunId holder = *world.last.created;
    world.tell(on_racks("racks"));
    const RunId waits = *world.last.created;
    CHECK(world.run(waits).state == RunState::queued);
    const std::uint64_t before = world.cluster.index.searches();
    for (int i = 0; i < 20; ++i) {
        RunSubmitted small = submission({.name = "small" + std::to_string(i), .cpus = 1});
        small.spec.gang.nodes_excluded = {{"n12"}};
        world.tell(small);
    }
    CHECK(world.cluster.index.searches() - before <= 20 * few);
    world.tell(RunStopAsked{.run = holder, .by = "ana"});
    world.empties(holder);
    CHECK(world.run(waits).state == RunState::starting);
}

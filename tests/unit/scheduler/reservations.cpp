// The seats of a reservation, which do not include the rest of its nodes. The runs that may pass it.
#include "scheduler/queue/order.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

void finishes(World& world, RunId id) {
    if (world.run(id).state == RunState::starting) world.prepare(id), world.start(id);
    for (std::uint32_t rank = 0; rank < world.attempt(id).workers.size(); ++rank) world.exits(id, rank, exit_code(0));
    world.empties(id);
    REQUIRE(world.run(id).state == RunState::succeeded);
}

RunId submit_of(World& world, const std::string& program, const Job& job) {
    RunSubmitted event = submission(job);
    event.program = program;
    world.tell(event);
    REQUIRE(world.last.created);
    return *world.last.created;
}

bool starts(const World& world, RunId id) { return world.run(id).state == RunState::starting; }

std::vector<GpuShare> device(std::uint32_t number) { return {{.device = number, .amount = units(1)}}; }

}  // namespace

TEST_CASE("a reservation names its seats, and the attempt that it waits for", "[reservations]") {
    World world;
    world.nodes(1, 8, 2);
    const RunId plain = world.running({.name = "plain"});
    const RunId other = world.running({.name = "other", .gpus = units(1)});
    const RunId actor = world.running({.name = "actor", .gpus = units(1)});
    const RunId call = world.submit({.name = "call", .gpus = units(2)});
    CHECK(world.run(call).nodes_reserved == std::vector<NodeId>{{"n1"}});
    REQUIRE(world.run(call).seats_reserved.size() == 1);
    CHECK(world.run(call).seats_reserved[0].gpus.size() == 2);
    CHECK(world.run(call).reserved_after == std::vector<AttemptId>{world.attempt_id(other), world.attempt_id(actor)});
    CHECK(world.run(plain).state == RunState::running);
    const RunId next = world.submit({.name = "next", .cpus = 6});
    CHECK(world.run(next).state == RunState::queued);
    finishes(world, other);
    finishes(world, actor);
    CHECK(starts(world, call));
    CHECK(world.run(call).seats_reserved.empty());
    CHECK(world.run(call).reserved_after.empty());
}

TEST_CASE("nothing that passes takes a device or an amount of the seats", "[reservations]") {
    World world;
    world.nodes(1, 4, 2);
    world.running({.name = "actor", .cpus = 2, .gpus = units(1)});  // GPU 0
    const RunId gang = world.submit({.name = "gang", .cpus = 3, .gpus = units(2)});
    CHECK_FALSE(starts(world, world.submit({.name = "gpu", .gpus = units(1)})));  // GPU 1 is free, but reserved
    CHECK_FALSE(starts(world, world.submit({.name = "two", .cpus = 2})));         // 3 of 4 CPUs are reserved
    CHECK(starts(world, world.submit({.name = "one", .cpus = 1})));
    CHECK_FALSE(starts(world, world.submit({.name = "more", .cpus = 1})));
    CHECK(world.run(gang).seats_reserved[0].gpus == std::vector<GpuShare>{device(0)[0], device(1)[0]});
}

TEST_CASE("seats of several reservations on a node add up", "[reservations]") {
    World world;
    world.nodes(1, 8, 1);
    const RunId actor = world.running({.name = "actor", .gpus = units(1)});
    const RunId holder = world.running({.name = "holder", .cpus = 5});
    const RunId gpu = world.submit({.name = "gpu", .cpus = 2, .gpus = units(1)});
    const RunId cpu = world.submit({.name = "cpu", .cpus = 5});  // it lacks CPUs, but no GPU
    CHECK(world.run(gpu).nodes_reserved == std::vector<NodeId>{{"n1"}});
    CHECK(world.run(cpu).nodes_reserved == std::vector<NodeId>{{"n1"}});
    CHECK(starts(world, world.submit({.name = "one"})));         // 2 + 5 of 8 CPUs are reserved
    CHECK_FALSE(starts(world, world.submit({.name = "more"})));  // a CPU is idle
    finishes(world, holder);
    CHECK(starts(world, cpu));
    finishes(world, actor);
    CHECK(starts(world, gpu));
}

TEST_CASE("a CPU gang behind a GPU gang starts under a stream of runs of one CPU", "[reservations]") {
    World world;
    world.nodes(2, 4, 1);
    for (const char* name : {"actor1", "actor2"}) world.running({.name = name, .gpus = units(1)});
    std::vector<RunId> stream;
    int number = 0;
    while (number < 6) stream.push_back(world.submit({.name = "s" + std::to_string(number++)}));
    const RunId gpus = world.submit({.name = "gpus", .workers = 2, .gpus = units(1)});
    const RunId cpus = world.submit({.name = "cpus", .workers = 2, .cpus = 3});
    for (int round = 0; round < 40 && !starts(world, cpus); ++round) {
        REQUIRE_FALSE(stream.empty());
        finishes(world, stream.front());
        stream.erase(stream.begin());
        const RunId id = world.submit({.name = "s" + std::to_string(number++)});
        if (starts(world, id)) stream.push_back(id);
    }
    CHECK(starts(world, cpus));
    CHECK(world.run(gpus).state == RunState::queued);
}

TEST_CASE("the runs of a program pass the reservation that waits for it, and those of another do not",
          "[reservations]") {
    World world;
    world.nodes(1, 4, 1);
    const std::string program = GENERATE("run-7", "session-aa");
    const RunId actor = submit_of(world, program, {.name = "actor", .gpus = units(1)});
    world.prepare(actor), world.start(actor);
    const RunId call = world.submit({.name = "call", .cpus = 4, .gpus = units(1)});
    CHECK_FALSE(starts(world, world.submit({.name = "stranger"})));
    CHECK_FALSE(starts(world, submit_of(world, "session-bb", {.name = "other"})));
    CHECK(starts(world, submit_of(world, program, {.name = "own"})));  // it passes runs of its shape that may not start
    CHECK(starts(world, submit_of(world, program, {.name = "own-long", .wall_time = Duration{9'000'000}})));
    CHECK(world.run(call).state == RunState::queued);
}

TEST_CASE("a program waits for a reservation whose time is known", "[reservations]") {
    World world;
    world.nodes(1, 4, 1);
    const RunId actor = submit_of(world, "run-7", {.name = "actor", .gpus = units(1), .wall_time = Duration{100'000}});
    world.prepare(actor), world.start(actor);
    world.submit({.name = "call", .cpus = 4, .gpus = units(1)});
    CHECK_FALSE(starts(world, submit_of(world, "run-7", {.name = "own"})));
}

TEST_CASE("the children of a driver pass the reservation that waits for the driver itself", "[reservations]") {
    World world;
    world.nodes(1, 4, 1);
    const RunId driver = world.running({.name = "driver", .gpus = units(1)});
    world.submit({.name = "call", .cpus = 4, .gpus = units(1)});
    const std::string program = "run-" + std::to_string(driver.value);
    CHECK(starts(world, submit_of(world, program, {.name = "child"})));
}

TEST_CASE("a run that passes prefers nodes without reserved seats", "[reservations]") {
    World world;
    world.nodes(2, 4, 1);
    world.running({.name = "holder", .cpus = 1, .gpus = units(1)});  // on n1
    const RunId keeps = world.running({.name = "keeps", .cpus = 1, .gpus = units(1)});
    world.submit({.name = "call", .cpus = 1, .gpus = units(1)});
    const RunId small = world.submit({.name = "small"});
    REQUIRE(starts(world, small));
    CHECK(world.node_of(small, 0) == world.node_of(keeps, 0));
}

TEST_CASE("nodes that an earlier version reserved without amounts stay closed until the reservation is renewed",
          "[reservations]") {
    World world;
    world.nodes(1, 4, 1);
    const RunId actor = world.running({.name = "actor", .gpus = units(1)});
    const RunId call = world.submit({.name = "call", .gpus = units(1)});
    Cluster stored = world.cluster;
    stored.runs.at(call).seats_reserved.clear();
    stored.runs.at(call).reserved_after.clear();
    stored.index = {};
    stored.index.catch_up(stored);
    CHECK(stored.index.nodes(~stored.index.reserved().bit_of(call))[0].free.empty());
    CHECK(stored.index.nodes(every_reservation)[0].free.at("CPU") == units(3));
    decide(stored, world.now, submission({.name = "function"}));  // a cycle renews the reservation
    CHECK(stored.runs.at(call).seats_reserved.size() == 1);
    CHECK(stored.runs.at(call).reserved_after == std::vector<AttemptId>{{.run = actor, .number = 1}});
    CHECK(stored.runs.rbegin()->second.state == RunState::starting);
}

TEST_CASE("a reserved start does not move for an older run that could start on its seats", "[reservations]") {
    World world;
    world.nodes(2, 4, 1);
    world.running({.name = "one", .cpus = 4, .gpus = units(1), .wall_time = Duration{100'000}});
    world.running({.name = "two", .cpus = 4, .gpus = units(1), .wall_time = Duration{200'000}});
    const RunId first = world.submit({.name = "first", .cpus = 3, .gpus = units(1)});
    CHECK(world.run(first).reserved_from == world.now + Duration{100'000});
    const RunId second = world.submit({.name = "second", .cpus = 1, .gpus = units(1), .priority = 40});
    CHECK(world.run(second).state == RunState::queued);
    world.pass(150'000);
    CHECK(world.run(second).state == RunState::queued);
}

TEST_CASE("a claim that takes a higher number is still the attempt that a reservation waits for", "[reservations]") {
    World world;
    world.nodes(1, 4, 1);
    const RunId actor = submit_of(world, "run-7", {.name = "actor", .gpus = units(1)});
    const RunId call = world.submit({.name = "call", .cpus = 4, .gpus = units(1)});
    world.prepare(actor, 5);
    CHECK(world.run(call).reserved_after == std::vector<AttemptId>{{.run = actor, .number = 5}});
    CHECK(starts(world, submit_of(world, "run-7", {.name = "own"})));
}

TEST_CASE("a reservation no longer waits for an attempt when others have made room in its place", "[reservations]") {
    World world;
    world.nodes(1, 6, 1);
    const RunId actor = world.running({.name = "actor", .gpus = units(1)});
    const RunId big = world.running({.name = "big", .cpus = 3});
    const RunId small = world.running({.name = "small", .cpus = 2});
    const RunId call = world.submit({.name = "call", .cpus = 3, .gpus = units(1)});
    CHECK(world.run(call).reserved_after == std::vector<AttemptId>{world.attempt_id(actor), world.attempt_id(big)});
    finishes(world, small);
    CHECK(world.run(call).reserved_after == std::vector<AttemptId>{world.attempt_id(actor)});
    CHECK_FALSE(starts(world, world.submit({.name = "one"})));  // the seats are the 2 free CPUs and those of the actor
    finishes(world, actor);
    CHECK(starts(world, call));
}

TEST_CASE("a reservation that finds its seats taken by the program waits for the program again", "[reservations]") {
    World world;
    world.nodes(1, 4, 1);
    const RunId actor = submit_of(world, "run-7", {.name = "actor", .gpus = units(1)});
    world.prepare(actor), world.start(actor);
    const RunId call = world.submit({.name = "call", .cpus = 4, .gpus = units(1)});
    const RunId outer = submit_of(world, "run-7", {.name = "outer"});
    REQUIRE(starts(world, outer));
    finishes(world, actor);
    CHECK(world.run(call).state == RunState::queued);
    CHECK(world.run(call).reserved_after == std::vector<AttemptId>{world.attempt_id(outer)});
    CHECK(starts(world, submit_of(world, "run-7", {.name = "inner"})));
}

TEST_CASE("a run that retries starts again before the run that waits for its nodes", "[reservations]") {
    World world;
    world.nodes(2, 1);
    const RunId first = world.running({.name = "first", .workers = 2, .max_failures = 3});
    const RunId second = world.submit({.name = "second", .workers = 2});
    const bool made_progress = GENERATE(false, true);  // an attempt with progress gets no backoff
    if (made_progress) world.pass(40'000);
    world.exits(first, 1, killed(9));
    world.exits(first, 0, killed(15));
    world.empties(first);
    CHECK(world.run(second).state == RunState::queued);
    world.pass(10'000);
    CHECK(starts(world, first));
    CHECK(world.run(second).state == RunState::queued);
    finishes(world, first);
    CHECK(starts(world, second));
}

TEST_CASE("a promised time stays when one of several attempts that end then has ended", "[reservations]") {
    World world;
    world.nodes(1, 8, 2);
    const Job holder{.gpus = units(1), .wall_time = Duration{100'000}};
    Job second = holder;
    second.name = "second";
    const RunId one = world.running(holder), two = world.running(second);
    world.running({.name = "long", .cpus = 4});
    const RunId gpus = world.submit({.name = "gpus", .gpus = units(2)});
    const Time promised = world.run(gpus).reserved_from;
    CHECK(promised == world.now + Duration{100'000});
    const RunId cpus = world.submit({.name = "cpus", .cpus = 6});
    CHECK(world.run(cpus).nodes_reserved == std::vector<NodeId>{{"n1"}});
    world.now = promised;
    finishes(world, one);
    CHECK(world.run(gpus).reserved_from == promised);
    finishes(world, two);
    CHECK(starts(world, gpus));
}

TEST_CASE("a promised run starts although a program has passed the reservation before it", "[reservations]") {
    World world;
    world.tell(node("n1", 8, 1));
    world.tell(node("n2", 4, 0));
    const RunId actor = submit_of(world, "run-7", {.name = "actor", .gpus = units(1)});
    world.prepare(actor), world.start(actor);
    const RunId holder = world.running({.name = "holder", .cpus = 4, .wall_time = Duration{100'000}});
    REQUIRE(world.node_of(holder, 0) == NodeId{"n2"});
    const RunId call = world.submit({.name = "call", .cpus = 4, .gpus = units(1)});
    const RunId gang = world.submit({.name = "gang", .workers = 2, .cpus = 3, .placement = Strategy::strict_spread});
    const Time promised = world.run(gang).reserved_from;
    CHECK(promised == world.now + Duration{100'000});
    const RunId own = submit_of(world, "run-7", {.name = "own", .cpus = 4});
    REQUIRE(starts(world, own));
    CHECK(world.run(call).reserved_after == std::vector<AttemptId>{world.attempt_id(actor), world.attempt_id(own)});
    world.now = promised;
    finishes(world, holder);
    CHECK(starts(world, gang));
}

TEST_CASE("a run without a time takes no seats that are promised to a run behind it", "[reservations]") {
    World world;
    world.nodes(1, 8, 1);
    const RunId actor = submit_of(world, "run-7", {.name = "actor", .gpus = units(1)});
    world.prepare(actor), world.start(actor);
    const RunId holder = world.running({.name = "holder", .cpus = 3, .wall_time = Duration{100'000}});
    const RunId call = world.submit({.name = "call", .cpus = 4, .gpus = units(1)});
    const RunId next = world.submit({.name = "next", .cpus = 3});
    const Time promised = world.run(next).reserved_from;
    CHECK(promised == world.now + Duration{100'000});
    REQUIRE(starts(world, submit_of(world, "run-7", {.name = "own", .cpus = 4, .wall_time = Duration{500'000}})));
    finishes(world, actor);
    CHECK(world.run(call).state == RunState::queued);
    world.now = promised;
    finishes(world, holder);
    CHECK(starts(world, next));
}

TEST_CASE("a run that retries starts before a promised time if its limit ends by then", "[reservations]") {
    World world;
    world.nodes(1, 4);
    const RunId first = world.running({.name = "first", .cpus = 4, .max_failures = 3, .wall_time = Duration{100'000}});
    const RunId second = world.submit({.name = "second", .cpus = 4});
    const Time promised = world.run(second).reserved_from;
    CHECK(promised == world.now + Duration{100'000});
    world.pass(40'000);
    world.exits(first, 0, killed(9));
    world.empties(first);
    CHECK(starts(world, first));
    CHECK(world.run(second).reserved_from == promised);
}

TEST_CASE("a run that retries keeps its seats when an older run fails", "[reservations]") {
    World world;
    world.nodes(1, 8);
    const RunId older = world.running({.name = "older", .cpus = 4, .max_failures = 3});
    const RunId younger = world.running({.name = "younger", .cpus = 4, .max_failures = 3});
    const auto fails = [&](RunId id) {
        world.exits(id, 0, killed(9));
        world.empties(id);
    };
    fails(younger);
    const Time promised = world.run(younger).reserved_from;
    CHECK(promised == world.now + Duration{1'000});
    world.submit({.name = "waiting", .cpus = 4});
    world.pass(500);
    fails(older);
    CHECK(world.run(younger).reserved_from == promised);
    world.pass(500);
    CHECK(starts(world, younger));
}

TEST_CASE("a run that retries starts beside the older reservation of another run, without another event",
          "[reservations]") {
    World world;
    world.tell(node("n1", 1, 1));
    world.tell(node("n2", 8, 0));
    world.running({.name = "actor", .gpus = units(1)});
    world.submit({.name = "call", .gpus = units(1)});
    const RunId first = world.running({.name = "first", .cpus = 4, .max_failures = 3});
    world.running({.name = "other", .cpus = 4});
    const RunId second = world.submit({.name = "second", .cpus = 8});
    world.exits(first, 0, killed(9));
    world.empties(first);
    CHECK(world.run(first).state == RunState::recovering);
    world.pass(2'000);
    CHECK(starts(world, first));
    CHECK(world.run(second).state == RunState::queued);
}

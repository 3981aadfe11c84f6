// Runs that may yield: they end with their owner, and for any waiting run that would start by their end.
#include <algorithm>

#include "scheduler/autoscale/demand.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/queue/order.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

struct HelperJob {
    Job job;
    RunId parent{};
    std::string session{}, user = "ana", queue = "default";
    Yielding yielding = Yielding::active;
};

RunSubmitted helper(const HelperJob& of) {
    RunSubmitted event = submission(of.job);
    event.user = of.user;
    event.spec.queue = of.queue;
    event.parent = of.parent;
    event.program = of.session;
    event.yielding = of.yielding;
    return event;
}

RunId submit_helper(World& world, const HelperJob& of) {
    world.tell(helper(of));
    REQUIRE(world.last.created);
    return *world.last.created;
}

void begins(World& world, RunId id) {
    world.prepare(id);
    world.start(id);
    REQUIRE(world.run(id).state == RunState::running);
}

RunId running_helper(World& world, const HelperJob& of) {
    const RunId id = submit_helper(world, of);
    begins(world, id);
    return id;
}

RunId submit_as(World& world, const std::string& user, const std::string& queue, const Job& job) {
    RunSubmitted event = submission(job);
    event.user = user;
    event.spec.queue = queue;
    world.tell(event);
    REQUIRE(world.last.created);
    return *world.last.created;
}

bool is_ending(const World& world, RunId id) { return world.run(id).state == RunState::stopping; }

}  // namespace

TEST_CASE("several waiting runs have as many yielding runs ended as needed", "[yielding]") {
    World world;
    world.nodes(2, 8);
    const RunId owner = world.running({.name = "owner", .cpus = 1});
    std::vector<RunId> children;
    for (int i = 0; i < 15; ++i)
        children.push_back(
            running_helper(world, {.job = {.name = "child" + std::to_string(i), .cpus = 1}, .parent = owner}));
    const auto ending = [&] {
        return std::count_if(children.begin(), children.end(), [&](RunId id) { return is_ending(world, id); });
    };
    for (int i = 1; i <= 13; ++i) {  // more than the runs that may have reservations
        submit_as(world, "bob", "default", {.name = "other" + std::to_string(i), .cpus = 1});
        CHECK(ending() == i);
    }
    submit_as(world, "bob", "default", {.name = "large", .workers = 4, .cpus = 1});  // never fits beside them
    CHECK(ending() == 13);
}

TEST_CASE("a yielding run that helps no waiting run stays", "[yielding]") {
    World world;
    world.nodes(1, 4);
    world.running({.name = "holder", .cpus = 2});
    const RunId child = running_helper(world, {.job = {.name = "child", .cpus = 1}, .session = "session-1"});
    const RunId large = submit_as(world, "bob", "default", {.name = "large", .cpus = 4});  // waits for the holder
    CHECK(world.run(child).state == RunState::running);
    CHECK(world.run(large).state == RunState::queued);
    submit_helper(world, {.job = {.name = "second", .cpus = 4}, .session = "session-1"});  // another yielding run
    CHECK(world.run(child).state == RunState::running);
}

TEST_CASE("a yielding run waits behind all others and takes no seat of theirs", "[yielding]") {
    World world;
    world.nodes(2, 4);
    const RunId first = world.running({.name = "first", .cpus = 4});
    const RunId gang = world.submit({.name = "gang", .workers = 2, .cpus = 4, .priority = 0});
    const RunId child =
        submit_helper(world, {.job = {.name = "child", .cpus = 1, .priority = 100}, .session = "session-1"});
    CHECK(world.run(child).state == RunState::queued);  // the free node is reserved for the gang
    CHECK(queue_order(world.cluster) == std::vector<RunId>{gang, child});
    CHECK(waiting_demand(world.cluster).size() == 1);  // no machine is ordered for it
    world.exits(first, 0, exit_code(0));
    world.empties(first);
    CHECK(world.run(gang).state == RunState::starting);
    CHECK(world.run(child).state == RunState::queued);
    world.tell(RunStopAsked{.run = gang, .by = "ana"});
    world.empties(gang);
    CHECK(world.run(child).state == RunState::starting);
}

TEST_CASE("helpers end with their owner, whatever its end", "[yielding]") {
    const auto yielding = GENERATE(Yielding::active, Yielding::paused);
    World world;
    world.nodes(1, 8);
    const RunId owner = world.running({.name = "owner", .cpus = 1});
    const RunId child =
        running_helper(world, {.job = {.name = "child", .cpus = 1}, .parent = owner, .yielding = yielding});
    const RunId below =
        running_helper(world, {.job = {.name = "below", .cpus = 1}, .parent = child, .yielding = yielding});
    const RunId plain = world.running({.name = "plain", .cpus = 1});
    const auto end = GENERATE(0, 1, 2);
    if (end == 0) world.exits(owner, 0, exit_code(0));
    if (end == 1) world.exits(owner, 0, exit_code(1));
    if (end == 2) world.tell(RunStopAsked{.run = owner, .by = "ana"});
    if (end != 2) world.empties(owner);
    for (const RunId id : {child, below}) {
        CHECK(is_ending(world, id));
        world.empties(id);
        CHECK(world.run(id).state == RunState::stopped);
    }
    CHECK(world.run(child).reason == Reason{reasons::OwnerEnded{.owner = "owner"}});
    CHECK(world.run(below).reason == Reason{reasons::OwnerEnded{.owner = "child"}});
    CHECK(world.run(plain).state == RunState::running);
}

TEST_CASE("helpers stay while their owner recovers", "[yielding]") {
    World world;
    world.nodes(2, 4);
    const RunId owner = world.running({.name = "owner", .cpus = 1, .max_failures = 3});
    const RunId child = running_helper(world, {.job = {.name = "child", .cpus = 1}, .parent = owner});
    world.exits(owner, 0, exit_code(1));
    world.empties(owner);
    CHECK(world.run(owner).state == RunState::recovering);
    CHECK(world.run(child).state == RunState::running);
}

TEST_CASE("helpers end when their owner is preempted", "[yielding]") {
    World world;
    Queues queues;
    queues.rules = {{"default", {}}, {"low", {.preempt = true}}, {"high", {.preempt = true}}};
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.nodes(1, 4, 2);
    const RunId owner = submit_to(world, "low", {.name = "owner", .cpus = 1, .gpus = units(2), .priority = 1});
    begins(world, owner);
    const RunId child = running_helper(world, {.job = {.name = "child", .cpus = 1}, .parent = owner, .queue = "low"});
    submit_to(world, "high", {.name = "urgent", .cpus = 1, .gpus = units(2), .priority = 90});
    CHECK(world.run(child).state == RunState::running);  // its end does not help
    world.commits(owner, "epoch-1");
    CHECK(is_ending(world, child));
    REQUIRE(world.tell(helper({.job = {.name = "late", .cpus = 1}, .parent = owner, .queue = "low"})).refused);
    CHECK(world.last.refused->code == ErrorCode::conflict);
}

TEST_CASE("no run is preempted where yielding runs suffice", "[yielding]") {
    World world;
    Queues queues;
    queues.rules = {{"default", {}}, {"low", {.preempt = true}}, {"high", {.preempt = true}}};
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.nodes(1, 4);
    const RunId low = submit_to(world, "low", {.name = "low", .cpus = 2, .priority = 1});
    begins(world, low);
    const RunId child = running_helper(world, {.job = {.name = "child", .cpus = 2}, .session = "session-1"});
    submit_to(world, "high", {.name = "urgent", .cpus = 2, .priority = 90});
    CHECK(is_ending(world, child));
    CHECK(!world.attempt(low).request);
}

TEST_CASE("a quota that yielding runs fill is free for other runs", "[yielding]") {
    World world;
    Queues queues;
    queues.rules = {{"default", {}}, {"lab", {.quota = {{"CPU", units(4)}}}}};
    SECTION("of the queue") {}
    SECTION("of the user") {
        queues.rules.at("lab").quota.clear();
        queues.rules.at("lab").user_runs = 2;
    }
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.nodes(4, 8);
    const RunId owner = submit_as(world, "ana", "lab", {.name = "owner", .cpus = 1});
    begins(world, owner);
    const RunId child = running_helper(world, {.job = {.name = "child", .cpus = 3}, .parent = owner, .queue = "lab"});
    const RunId second = submit_helper(world, {.job = {.name = "second", .cpus = 1}, .parent = owner, .queue = "lab"});
    CHECK(world.run(second).state == RunState::queued);  // a yielding run keeps to the quota
    const RunId other = submit_as(world, "ana", "lab", {.name = "other", .cpus = 1});
    CHECK(is_ending(world, child));
    world.empties(child);
    CHECK(world.run(other).state == RunState::starting);
}

TEST_CASE("an elastic run grows into the seats of yielding runs", "[yielding]") {
    World world;
    world.nodes(1, 4);
    const RunId elastic = world.submit({.name = "elastic", .workers = 4, .cpus = 1, .workers_min = 1});
    world.prepare(elastic);
    world.start(elastic);
    world.tell(RunResizeAsked{.run = elastic, .by = "ana", .workers = 2});
    world.commits(elastic, "epoch-1");
    world.empties(elastic);
    begins(world, elastic);
    REQUIRE(world.attempt(elastic).workers.size() == 2);
    const RunId child = running_helper(world, {.job = {.name = "child", .cpus = 2}, .session = "session-1"});
    world.tell(RunResizeAsked{.run = elastic, .by = "ana", .workers = 4});
    CHECK(is_ending(world, child));
    CHECK(!world.attempt(elastic).request);  // it keeps its workers until the seats are free
    world.empties(child);
    REQUIRE(world.attempt(elastic).request);
    const RunId late = submit_helper(world, {.job = {.name = "late", .cpus = 1}, .session = "session-1"});
    CHECK(world.run(late).state == RunState::queued);
    world.commits(elastic, "epoch-2");
    world.empties(elastic);
    CHECK(world.attempt(elastic).workers.size() == 4);
}

TEST_CASE("yields can be changed for helpers alone", "[yielding]") {
    World world;
    world.nodes(1, 2);
    const RunId plain = world.running({.name = "plain"});
    REQUIRE(world.tell(RunYieldsChanged{.run = plain, .by = "ana", .yielding = Yielding::active}).refused);
    CHECK(world.last.refused->message == "run plain was not submitted with yields");
    CHECK(world.tell(RunYieldsChanged{.run = {99}, .by = "ana"}).refused->code == ErrorCode::not_found);
    const RunId pool = running_helper(world, {.job = {.name = "pool"}, .session = "session-1"});
    CHECK(world.tell(RunYieldsChanged{.run = pool, .by = "ana", .yielding = Yielding::active}).save.empty());
    world.tell(RunYieldsChanged{.run = pool, .by = "ana", .yielding = Yielding::paused});
    world.submit({.name = "other"});
    CHECK(world.run(pool).state == RunState::running);
}

TEST_CASE("a submission that yields needs an owner and one worker", "[yielding]") {
    World world;
    world.nodes(1, 4);
    CHECK(world.tell(helper({.job = {.name = "alone"}})).refused->code == ErrorCode::invalid);
    CHECK(world.tell(helper({.job = {.name = "absent"}, .parent = {7}})).refused->code == ErrorCode::invalid);
    CHECK(world.tell(helper({.job = {.name = "gang", .workers = 2}, .session = "session-1"})).refused->code ==
          ErrorCode::invalid);
    const RunId owner = world.running({.name = "owner"});
    world.tell(RunStopAsked{.run = owner, .by = "ana"});
    CHECK(world.tell(helper({.job = {.name = "late"}, .parent = owner})).refused->code == ErrorCode::conflict);
}

TEST_CASE("a yielding run leaves a draining node at once", "[yielding]") {
    World world;
    world.nodes(1, 4);
    const RunId child = running_helper(world, {.job = {.name = "child"}, .session = "session-1"});
    world.tell(NodeDrained{.node = {"n1"}, .by = "bob", .reason = "repair"});
    CHECK(is_ending(world, child));
    world.empties(child);
    CHECK(world.run(child).state == RunState::stopped);
    CHECK(world.run(child).reason.is<reasons::NodeDrains>());
}

TEST_CASE("a lost node that held a run and its helper ends both once", "[yielding]") {
    World world;
    world.nodes(1, 4);
    const RunId owner = world.running({.name = "owner"});
    const RunId child = running_helper(world, {.job = {.name = "child"}, .parent = owner});
    world.exits(owner, 0, exit_code(0));  // the node has not reported that it is empty
    world.tell(NodeLost{.node = {"n1"}, .why = "no heartbeat for 10 s"});
    CHECK(world.run(owner).state == RunState::succeeded);
    CHECK(world.run(child).state == RunState::stopped);
}

// The order of placement, and the reasons for which runs wait.
#include "scheduler/explain/explain.hpp"
#include "scheduler/queue/order.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

TEST_CASE("a changed priority moves a waiting run in the queue") {
    World world;
    const RunId first = world.submit({.name = "first"});
    const RunId second = world.submit({.name = "second"});
    world.tell(RunPriorityChanged{.run = second, .by = "ana", .priority = 80});
    CHECK(world.last.note.starts_with("ana changed the priority of second from 50 to 80"));
    CHECK(queue_order(world.cluster) == std::vector<RunId>{second, first});
    world.nodes(1, 1);
    CHECK(world.run(second).state == RunState::starting);
    CHECK(world.run(first).state == RunState::queued);
}

TEST_CASE("a changed priority of a live run lets others preempt it") {
    World world;
    Queues queues;
    queues.rules = {{"default", {.preempt = true}}};
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.nodes(1, 1);
    const RunId holder = world.running({.name = "holder", .priority = 60});
    world.submit({.name = "waits", .priority = 60});
    CHECK_FALSE(world.attempt(holder).request);
    world.tell(RunPriorityChanged{.run = holder, .by = "ana", .priority = 10});
    REQUIRE(world.attempt(holder).request);
    CHECK(world.attempt(holder).request->reason == RequestReason::preemption);
}

TEST_CASE("the priority of a run that has ended is not changed") {
    World world;
    const RunId run = world.submit({.name = "ended"});
    world.tell(RunStopAsked{.run = run, .by = "ana"});
    REQUIRE(world.tell(RunPriorityChanged{.run = run, .by = "ana", .priority = 1}).refused);
    CHECK(world.last.refused->code == ErrorCode::conflict);
    CHECK(world.run(run).spec.priority == 50);
    CHECK(world.tell(RunPriorityChanged{.run = RunId{99}, .by = "ana"}).refused->code == ErrorCode::not_found);
}

TEST_CASE("a reason that holds no more is told anew") {
    World world;
    Queues queues;
    queues.rules = {{"default", {.quota = {{"GPU", units(1)}}}}};
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.nodes(1, 64, 2);
    const RunId holder = world.running({.name = "holder", .gpus = units(1)});
    const RunId other = submit_to(world, "default", {.name = "other", .gpus = units(1)});
    const RunId never = submit_to(world, "default", {.name = "never", .cpus = 100});
    CHECK(to_text(world.run(other).reason) == "queue \"default\" holds 1 of its quota of 1 GPU, this needs 1 more");
    CHECK(to_text(world.run(never).reason).starts_with("NO PRESENT NODES COULD EVER HOLD IT"));

    SECTION("the quota was raised") {
        const RunId behind = submit_to(world, "default", {.name = "behind", .gpus = units(1)});
        const RunId more = submit_to(world, "default", {.name = "more", .gpus = units(1)});
        queues.rules["default"].quota["GPU"] = units(8);
        world.tell(QueuesConfigured{.queues = queues, .by = ""});
        CHECK(world.run(other).state == RunState::starting);
        CHECK(to_text(world.run(behind).reason) == "waits for room");
        CHECK(to_text(world.run(more).reason) == "waits for room");
    }
    SECTION("a node joins, and is busy") {
        world.tell(node("n2", 128));
        CHECK(world.run(never).state == RunState::starting);
        const RunId second = submit_to(world, "default", {.name = "second", .cpus = 100});
        CHECK(to_text(world.run(second).reason) == "waits for room");
        world.tell(NodeLost{.node = {"n2"}, .why = "silent"});
        CHECK(to_text(world.run(second).reason).starts_with("NO PRESENT NODES COULD EVER HOLD IT"));
        const RunId fills = submit_to(world, "default", {.name = "fills", .cpus = 60});
        CHECK(world.run(fills).state == RunState::starting);
        NodeRegistered larger = node("n1", 128, 2);
        larger.held = {world.attempt_id(holder), world.attempt_id(fills)};
        world.tell(larger);
        CHECK(world.run(second).state == RunState::queued);
        CHECK(to_text(world.run(second).reason) == "waits for room");
    }
}

TEST_CASE("explain knows what lenders claim back, what was promised, and who stands aside") {
    const auto says = [](const std::string& text, const std::string& words) {
        return text.find(words) != std::string::npos;
    };
    const auto rules = [](const World& world, RunId id) {
        std::string text;
        for (const Rule& rule : explain(world.cluster, world.now, id, JobWords::shown).rules) text += rule.text + "\n";
        return text;
    };
    World world;
    Queues queues;
    SECTION("claimed back") {
        queues.rules = {{"all", {.quota = {{"GPU", units(4)}}}},
                        {"a", {.parent = "all", .quota = {{"GPU", units(2)}}}},
                        {"b", {.parent = "all", .quota = {{"GPU", units(2)}}}}};
        world.tell(QueuesConfigured{.queues = queues, .by = ""});
        world.nodes(1, 64, 8);
        submit_to(world, "a", {.name = "lent", .gpus = units(3)});
        submit_to(world, "b", {.name = "own", .gpus = units(2)});
        const RunId more = submit_to(world, "a", {.name = "more", .gpus = units(1)});
        REQUIRE(world.run(more).state == RunState::queued);
        CHECK(says(rules(world, more), "quota: may borrow no GPU now"));
    }
    SECTION("promised, and standing aside") {
        queues.rules = {{"default", {.quota = {{"GPU", units(4)}}, .preempt = true}}};
        world.tell(QueuesConfigured{.queues = queues, .by = ""});
        world.nodes(1, 64, 8);
        const RunId one = world.running({.name = "one", .gpus = units(1), .priority = 10});
        const RunId two = world.running({.name = "two", .gpus = units(2), .priority = 10});
        const RunId urgent = world.submit({.name = "urgent", .gpus = units(4), .priority = 90});
        world.commits(one, "checkpoint_000001-a001");
        world.empties(one);
        CHECK(says(explain(world.cluster, world.now, one, JobWords::shown).headline, "It stands aside for 15 s more"));
        CHECK(says(rules(world, one), "last attempt: gives way to urgent"));
        CHECK(says(rules(world, one), "4 are kept for runs that start before"));
        world.commits(two, "checkpoint_000001-a001");
        world.empties(two);
        CHECK(world.run(urgent).state == RunState::starting);
    }
}

TEST_CASE("a run without resources starts on full and on reserved nodes, and reserves none itself") {
    World world;
    world.nodes(2, 1);
    const RunId small = world.running({.name = "small"});
    const RunId big = world.submit({.name = "big", .workers = 2});
    RunSubmitted event = submission({.name = "driver", .cpus = 0, .max_failures = 3});
    event.spec.gang.driver = GENERATE(false, true);
    world.tell(event);
    const RunId driver = world.last.created.value();
    CHECK(world.run(driver).state == RunState::starting);
    CHECK(world.run(big).state == RunState::queued);
    world.prepare(driver);
    world.start(driver);
    world.exits(driver, 0, killed(9));
    world.empties(driver);
    CHECK(world.run(driver).nodes_reserved.empty());  // a retry after a short backoff reserves no node
    world.exits(small, 0, exit_code(0));
    world.empties(small);
    CHECK(world.run(big).state == RunState::starting);
    world.pass(1'000);
    CHECK(world.run(driver).state == RunState::starting);
}

TEST_CASE("a user's runs without resources wait for each other, not for others") {
    World world;
    world.nodes(1, 1);
    const auto submit_as = [&](const std::string& user, std::uint32_t workers) {
        RunSubmitted event =
            submission({.name = user + std::to_string(world.cluster.meta.next_run), .workers = workers, .cpus = 0});
        event.user = user;
        world.tell(event);
        return world.last.created.value();
    };
    const RunId most = submit_as("ana", limits::zero_bundles_most);
    REQUIRE(world.run(most).state == RunState::starting);
    const RunId waits = submit_as("ana", 1), others = submit_as("bob", 1), plain = world.submit({.name = "plain"});
    CHECK(world.run(waits).state == RunState::queued);
    CHECK(world.run(waits).nodes_reserved.empty());
    CHECK(world.run(others).state == RunState::starting);
    CHECK(world.run(plain).state == RunState::starting);
    CHECK(explain(world.cluster, world.now, waits, JobWords::shown)
              .placement->reasons.at(0)
              .text.starts_with("user ana has 256"));
    world.tell(RunStopAsked{.run = most, .by = "ana", .now = true});
    world.empties(most);
    CHECK(world.run(waits).state == RunState::starting);
}

TEST_CASE("a retry that comes due together with another event is not forgotten") {
    World world;
    world.nodes(2, 1);
    const RunId first = world.running({.name = "first", .max_failures = 3});
    const RunId other = world.running({.name = "other"});
    world.exits(first, 0, killed(9));
    world.empties(first);
    world.now.ms += 1'500;
    world.exits(other, 0, exit_code(0));
    CHECK(world.run(first).state == RunState::starting);
}

TEST_CASE("explain says the state, the place in the queue, the need, each node's reason, and who holds what") {
    World world;
    world.nodes(2, 4, 4);
    world.running({.name = "vit", .gpus = units(4)});
    const RunId big = world.submit({.name = "big", .workers = 2, .gpus = units(4)});
    world.submit({.name = "later", .gpus = units(4)});
    world.pass(720'000);
    const Explanation why = explain(world.cluster, world.now, big, JobWords::shown);
    CHECK(why.headline ==
          "QUEUED 12m, position 1 of 2 in queue \"default\". Needs 2 workers x 4 GPU 1 CPU, all at once.");
    REQUIRE(why.placement);
    CHECK(why.placement->reasons.at(0).text == "0 of 4 GPUs untouched, bundle needs 4");
    CHECK(why.placement->nearest_change == "would start now with scaling.workers=1");
    CHECK(why.holders == std::vector<std::string>{"n1: 4 GPU 1 CPU by vit (attempt 1)"});
    CHECK(explain(world.cluster, world.now, {77}, JobWords::shown).headline == "no run c0ffee-77");
}

TEST_CASE("a queue change made of outdated queues is refused") {
    World world;
    Queues first, second;
    first.rules["a"] = {};
    first.rules["default"] = {};
    second.rules["b"] = {};
    second.rules["default"] = {};
    const Queues before = world.cluster.queues;
    CHECK_FALSE(world.tell(QueuesConfigured{.queues = first, .by = "ana", .changed_from = before}).refused);
    const Decision refused = world.tell(QueuesConfigured{.queues = second, .by = "bob", .changed_from = before});
    REQUIRE(refused.refused);
    CHECK(refused.refused->code == ErrorCode::conflict);
    CHECK(world.cluster.queues == first);
    CHECK_FALSE(world.tell(QueuesConfigured{.queues = second, .by = "bob"}).refused);  // a new file replaces all queues
}

TEST_CASE("a run that was placed stands before no run of a lower priority") {
    World world;
    world.nodes(1, 4);
    const RunId holder = world.running({.name = "holder", .cpus = 4, .priority = 90});
    const RunId first = world.submit({.name = "first", .cpus = 4});
    const RunId last = world.submit({.name = "last", .cpus = 4, .priority = 3});  // the third line of waiting runs
    REQUIRE_FALSE(world.run(first).nodes_reserved.empty());
    world.exits(holder, 0, exit_code(0));
    world.empties(holder);
    CHECK(world.run(first).state == RunState::starting);
    CHECK(world.run(last).state == RunState::queued);
    CHECK(to_text(world.run(last).reason) == "waits for room");
}

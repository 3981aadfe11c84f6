// Queues: fair shares, quotas, borrowing, and the reservation of the run at the head of the queue.
#include "scheduler/queue/shares.hpp"

#include "scheduler/model/queue_use.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

Resources gpus(std::int64_t count) { return {{"GPU", units(count)}}; }

Queues two_teams() {
    Queues queues;
    queues.rules = {{"default", {}},
                    {"all", {.share = 1, .parent = "", .quota = gpus(8), .borrow = true, .preempt = false}},
                    {"a", {.share = 1, .parent = "all", .quota = gpus(4), .borrow = true, .preempt = false}},
                    {"b", {.share = 1, .parent = "all", .quota = gpus(4), .borrow = true, .preempt = false}}};
    return queues;
}

void end(World& world, RunId id) {
    world.prepare(id);
    world.start(id);
    world.exits(id, 0, exit_code(0));
    world.empties(id);
}

}  // namespace

TEST_CASE("use halves in each half-life, in whole numbers") {
    CHECK(core::decay({0}, {1'000}) == std::uint64_t{1} << 32);
    CHECK(core::decay({1'000}, {1'000}) == std::uint64_t{1} << 31);
    CHECK(core::decay({3'000}, {1'000}) == std::uint64_t{1} << 29);
    CHECK(core::decay({500}, {1'000}) == 3'037'000'499);  // 2^32 / sqrt(2)
    CHECK(core::decay({1'000'000}, {1'000}) == 0);
    std::uint64_t last = std::uint64_t{1} << 32;
    for (std::int64_t ms = 1; ms < 5'000; ms += 7) {
        CHECK(core::decay({ms}, {1'000}) <= last);
        last = core::decay({ms}, {1'000});
    }
}

TEST_CASE("a mean of what is held rises to it and falls again") {
    QueueUse use{.queue = "a", .at = {0}, .held = gpus(8), .level = {}};
    CHECK(core::level_at(use, {1'000}, {1'000}) == gpus(4));
    use = core::charged(use, {}, {1'000}, {1'000});
    CHECK(core::level_at(use, {2'000}, {1'000}) == gpus(2));
    CHECK(core::level_at(use, {1'000'000}, {1'000}).empty());
}

TEST_CASE("who lent its quota comes first when it wants it back") {
    World world;
    world.tell(QueuesConfigured{.queues = two_teams(), .by = ""});
    world.nodes(4, 64, 8);
    const RunId own = submit_to(world, "a", {.name = "own", .gpus = units(4)});
    const RunId lent = submit_to(world, "a", {.name = "lent", .gpus = units(4)});
    const RunId more = submit_to(world, "a", {.name = "more", .gpus = units(1), .priority = 90});
    const RunId claimant = submit_to(world, "b", {.name = "mine", .gpus = units(2)});
    CHECK(world.run(claimant).state == RunState::queued);
    end(world, lent);  // the older and more urgent run of the borrower must wait
    CHECK(world.run(claimant).state == RunState::starting);
    CHECK(world.run(more).state == RunState::starting);  // 4 + 2 + 1 of 8
    CHECK(world.run(own).state == RunState::starting);
}

TEST_CASE("a run beyond the quota of its parent claims back nothing, so that the others may borrow") {
    World world;
    world.tell(QueuesConfigured{.queues = two_teams(), .by = ""});
    world.nodes(4, 64, 8);
    Queues queues = two_teams();
    queues.rules["b"].quota = gpus(12);
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    const RunId never = submit_to(world, "b", {.name = "never", .workers = 12, .gpus = units(1)});
    CHECK(world.run(never).state == RunState::queued);
    const RunId borrows = submit_to(world, "a", {.name = "borrows", .gpus = units(6)});
    CHECK(world.run(borrows).state == RunState::starting);
}

TEST_CASE("the quota of a run with reserved seats goes to runs that end before it starts, and to no others") {
    World world;
    Queues queues;
    queues.rules = {{"default", {.quota = gpus(6)}}};
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.nodes(2, 64, 4);
    const RunId first = submit_to(world, "default",
                                  {.name = "first",
                                   .workers = 2,
                                   .gpus = units(1),
                                   .placement = Strategy::strict_spread,
                                   .wall_time = Duration{3'600'000}});
    REQUIRE(world.run(first).state == RunState::starting);
    const RunId large = submit_to(
        world, "default", {.name = "large", .workers = 4, .gpus = units(1), .placement = Strategy::strict_pack});
    const Time promised = world.run(large).reserved_from;
    REQUIRE(promised.ms > 0);
    const RunId longer = submit_to(world, "default", {.name = "longer", .gpus = units(3)});
    CHECK(world.run(longer).state == RunState::queued);  // 4 + 3 of 6 when "large" starts
    CHECK(to_text(world.run(longer).reason) ==
          "queue \"default\" holds 2 of its quota of 6 GPU, 2 are kept for runs that start before, this needs 3 more");
    const RunId shorter =
        submit_to(world, "default", {.name = "shorter", .gpus = units(3), .wall_time = Duration{600'000}});
    CHECK(world.run(shorter).state == RunState::starting);
    CHECK(world.run(large).reserved_from == promised);
}

TEST_CASE("a configuration without the queue of a live run is refused whole") {
    World world;
    world.tell(QueuesConfigured{.queues = two_teams(), .by = ""});
    submit_to(world, "a", {.name = "waits"});
    Queues others;
    others.rules = {{"default", {}}};
    world.tell(QueuesConfigured{.queues = others, .by = ""});
    REQUIRE(world.last.refused);
    CHECK(world.cluster.queues == two_teams());
}

TEST_CASE("the head of the queue has nodes reserved, and only what ends in time runs there before it") {
    World world;
    world.nodes(2, 4, 2);
    world.submit({.name = "holder", .gpus = units(1), .wall_time = Duration{100'000}});
    const RunId big = world.submit({.name = "big", .workers = 2, .gpus = units(2)});
    CHECK(world.run(big).nodes_reserved == std::vector<NodeId>{{"n1"}, {"n2"}});
    CHECK(world.run(big).reserved_from == world.now + Duration{100'000});
    CHECK(next_wake(world.cluster) == world.run(big).reserved_from);
    const RunId endless = world.submit({.name = "endless", .gpus = units(1)});
    const RunId slow = world.submit({.name = "long", .gpus = units(1), .wall_time = Duration{200'000}});
    const RunId quick = world.submit({.name = "quick", .gpus = units(1), .wall_time = Duration{90'000}});
    CHECK(world.run(endless).state == RunState::queued);
    CHECK(world.run(slow).state == RunState::queued);
    CHECK(world.run(quick).state == RunState::starting);
    world.pass(150'000);  // the estimate was wrong; no run has started, so no limit has begun
    CHECK(world.run(big).state == RunState::queued);
    CHECK(world.run(big).reserved_from > Time{101'000});
}

TEST_CASE("a reservation of unknown time takes the node that is given back, before who waits behind it") {
    World world;
    world.nodes(6, 4, 1);
    std::vector<RunId> holders;
    for (int i = 1; i <= 6; ++i) holders.push_back(world.submit({.name = "h" + std::to_string(i), .gpus = units(1)}));
    const RunId big = world.submit({.name = "big", .workers = 5, .gpus = units(1)});
    const RunId behind = world.submit({.name = "behind", .gpus = units(1)});
    CHECK(world.run(big).nodes_reserved == std::vector<NodeId>{{"n1"}, {"n2"}, {"n3"}, {"n4"}, {"n5"}});
    CHECK(world.run(big).reserved_from == Time{});
    world.pass(100);
    end(world, holders[5]);  // its exit was recorded at the same time
    CHECK(world.run(big).nodes_reserved == std::vector<NodeId>{{"n1"}, {"n2"}, {"n3"}, {"n4"}, {"n6"}});
    CHECK(world.run(behind).state == RunState::queued);
    for (std::size_t i = 1; i < 5; ++i) end(world, holders[i]);
    CHECK(world.run(big).state == RunState::starting);
    CHECK(world.run(behind).state == RunState::queued);
}

TEST_CASE("a restored run's pace is that since its restart, not since a beginning it did not have") {
    World world;
    world.nodes(1, 4, 1);
    RunSubmitted event = submission({.name = "restored", .gpus = units(1), .max_failures = 3});
    event.spec.stop_at = {{"epoch", 20}};
    world.tell(event);
    const RunId run = *world.last.created;
    // A checkpoint of another cluster, whose progress is not recorded here.
    world.prepare(run, 0, "checkpoint_000015-a000");
    world.start(run);
    const Duration hour{3'600'000};
    const auto expected = [&] {
        const RunId next = world.submit({.name = "next", .gpus = units(1)});
        const Time from = world.run(next).reserved_from;
        world.tell(RunStopAsked{.run = next, .by = "ana"});
        return from;
    };
    world.pass(hour.ms);
    world.commits(run, "checkpoint_000016-a001", {{"epoch", 16}});
    CHECK(expected() == Time{});  // one report alone gives no pace
    world.pass(hour.ms);
    world.commits(run, "checkpoint_000017-a001", {{"epoch", 17}});
    CHECK(expected() == world.now + Duration{3 * hour.ms});
    world.exits(run, 0, killed(9));
    world.empties(run);
    world.pass(60'000);
    world.prepare(run, 0, "checkpoint_000017-a001");
    world.start(run);
    world.pass(2 * hour.ms);
    world.commits(run, "checkpoint_000018-a002", {{"epoch", 18}});  // the checkpoint from which it started is recorded
    CHECK(expected() == world.now + Duration{4 * hour.ms});
}

TEST_CASE("the pace of checkpoints says when a run will end") {
    World world;
    world.nodes(1, 4, 1);
    RunSubmitted event = submission({.name = "paced", .gpus = units(1)});
    event.spec.stop_at = {{"epoch", 10}};
    world.tell(event);
    const RunId paced = *world.last.created;
    world.prepare(paced);
    world.start(paced);
    const Time began = world.now;
    world.pass(60'000);
    world.commits(paced, "checkpoint_000001-a001", {{"epoch", 4}});
    const RunId next = world.submit({.name = "next", .gpus = units(1)});
    CHECK(world.run(next).reserved_from == began + Duration{150'000});
}

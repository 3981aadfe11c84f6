// The choice of victims, for room in a quota and for room on nodes. No more runs are preempted than needed.
#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "scheduler/queue/preemption_choice.hpp"
#include "scheduler/queue/shares.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

Queues preempting(std::int64_t quota) {
    Queues queues;
    queues.rules = {{"default", {}}, {"batch", {.preempt = true}}, {"other", {.preempt = true}}};
    if (quota > 0) queues.rules.at("batch").quota = {{"GPU", units(quota)}};
    queues.preemption_grace = {60'000};
    return queues;
}

RunId runs_in(World& world, const std::string& queue, const Job& job) {
    const RunId id = submit_to(world, queue, job);
    world.prepare(id);
    world.start(id);
    REQUIRE(world.run(id).state == RunState::running);
    return id;
}

bool is_preempted(const World& world, RunId id) { return world.attempt(id).request.has_value(); }

}  // namespace

TEST_CASE("within a quota each higher run has as many lower ones asked as it needs, at once", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(4), .by = ""});
    world.nodes(2, 64, 8);  // each run keeps one node
    std::vector<RunId> low;
    for (int i = 0; i < 4; ++i)
        low.push_back(runs_in(world, "batch", {.name = "low" + std::to_string(i), .gpus = units(1), .priority = 10}));
    const auto asked = [&] {
        return std::count_if(low.begin(), low.end(), [&](RunId id) { return is_preempted(world, id); });
    };
    const RunId one = submit_to(world, "batch", {.name = "one", .gpus = units(1), .priority = 80});
    CHECK(asked() == 1);
    const RunId two = submit_to(world, "batch", {.name = "two", .gpus = units(1), .priority = 80});
    CHECK(asked() == 2);
    world.pass(1'000);
    CHECK(asked() == 2);  // once each
    world.pass(60'000);
    for (const RunId id : low)
        if (is_preempted(world, id)) world.empties(id);
    CHECK(world.run(one).state == RunState::starting);
    CHECK(world.run(two).state == RunState::starting);
    CHECK(std::count_if(low.begin(), low.end(), [&](RunId id) { return world.run(id).state == RunState::running; }) ==
          2);
}

TEST_CASE("runs of another queue are not asked for a quota they do not hold", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(4), .by = ""});
    world.nodes(1, 64, 8);
    const RunId elsewhere = runs_in(world, "other", {.name = "elsewhere", .gpus = units(4), .priority = 10});
    world.pass(10'000);
    const RunId equal = runs_in(world, "batch", {.name = "equal", .gpus = units(4), .priority = 80});
    const RunId waits = submit_to(world, "batch", {.name = "waits", .gpus = units(2), .priority = 80});
    CHECK_FALSE(is_preempted(world, elsewhere));
    CHECK_FALSE(is_preempted(world, equal));
    CHECK(to_text(world.run(waits).reason) == "queue \"batch\" holds 4 of its quota of 4 GPU, this needs 2 more");
    // One victim is needed for its quota, the other for its nodes.
    const RunId urgent = submit_to(world, "batch", {.name = "urgent", .gpus = units(4), .priority = 90});
    CHECK_FALSE(is_preempted(world, elsewhere));
    CHECK(is_preempted(world, equal));
    world.pass(60'000);
    world.empties(equal);
    CHECK(world.run(urgent).state == RunState::starting);
    world.pass(60'000);
    CHECK(world.attempt_id(equal).number == 1);  // the victim is not placed and preempted again
    CHECK_FALSE(is_preempted(world, urgent));
}

TEST_CASE("nobody gives way within a quota for a run that the nodes have no room for", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(4), .by = ""});
    world.nodes(2, 64, 4);
    const RunId held = runs_in(world, "default", {.name = "held", .gpus = units(4)});
    const RunId low = runs_in(world, "batch", {.name = "low", .gpus = units(2), .priority = 10});
    const RunId also = runs_in(world, "default", {.name = "also", .gpus = units(2)});
    submit_to(world, "batch", {.name = "urgent", .gpus = units(4), .priority = 80});
    CHECK_FALSE(is_preempted(world, low));  // 2 GPUs are free once the run has ended
    CHECK_FALSE(is_preempted(world, held));
    world.exits(also, 0, exit_code(0));
    world.empties(also);
    CHECK(is_preempted(world, low));
}

TEST_CASE("one dearer run gives way rather than two cheap ones that lose more together", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(0), .by = ""});
    world.nodes(2, 64, 2);
    const RunId b = runs_in(world, "batch", {.name = "b", .gpus = units(1), .priority = 10});
    world.pass(1'000);
    const RunId a = runs_in(world, "batch", {.name = "a", .gpus = units(1), .priority = 10});
    world.pass(4'000);
    const RunId c = runs_in(world, "batch", {.name = "c", .gpus = units(2), .priority = 10});
    REQUIRE(world.node_of(a, 0) == world.node_of(b, 0));
    world.pass(6'000);  // GPU seconds that would be lost: a 10, b 11, c 12
    submit_to(world, "other", {.name = "urgent", .gpus = units(2), .priority = 80});
    CHECK(is_preempted(world, c));
    CHECK_FALSE(is_preempted(world, a));
    CHECK_FALSE(is_preempted(world, b));
}

namespace {

// Starts a run of four workers with a GPU each, at least two, which has run for a while.
RunId can_shrink(World& world) {
    const RunId wide =
        runs_in(world, "batch", {.name = "wide", .workers = 4, .gpus = units(1), .priority = 10, .workers_min = 2});
    world.pass(100'000);
    return wide;
}

}  // namespace

TEST_CASE("where shrinking is not enough, the rest is taken from others beside it", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(0), .by = ""});
    world.nodes(1, 64, 8);
    const RunId wide = can_shrink(world);
    const RunId fresh = runs_in(world, "batch", {.name = "fresh", .gpus = units(2), .priority = 10});
    const RunId also = runs_in(world, "batch", {.name = "also", .gpus = units(2), .priority = 60});
    world.pass(1'000);
    const RunId urgent = submit_to(world, "other", {.name = "urgent", .gpus = units(4), .priority = 50});
    REQUIRE(is_preempted(world, wide));
    CHECK(world.attempt(wide).request->reason == RequestReason::resize);  // the run shrinks and is not stopped
    CHECK(world.attempt(wide).request->workers == 2);
    CHECK(is_preempted(world, fresh));
    CHECK_FALSE(is_preempted(world, also));
    world.pass(60'000);
    world.empties(wide);
    world.empties(fresh);
    CHECK(world.run(urgent).state == RunState::starting);
    CHECK(world.attempt(wide).workers.size() == 2);
}

TEST_CASE("nothing shrinks that is not needed once another is stopped", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(0), .by = ""});
    world.nodes(2, 64, 4);
    const RunId wide = can_shrink(world);
    const RunId fresh = runs_in(world, "batch", {.name = "fresh", .gpus = units(4), .priority = 10});
    world.pass(1'000);
    submit_to(world, "other", {.name = "urgent", .gpus = units(4), .priority = 50});
    CHECK(is_preempted(world, fresh));
    CHECK_FALSE(is_preempted(world, wide));
}

TEST_CASE("the choice of who gives way is the cheapest of all, against a search over every set", "[preemption]") {
    std::mt19937 chance(7);
    const auto draw = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(chance); };
    for (int round = 0; round < 300; ++round) {
        core::Victims all;
        // Amounts that each victim frees, on two kinds of nodes.
        std::map<AttemptId, std::array<std::int64_t, 2>> frees;
        const auto count = static_cast<std::uint64_t>(2 + draw(5));
        for (std::uint64_t i = 1; i <= count; ++i) {
            const AttemptId id{.run = {i}, .number = 1};
            all.push_back({.lost = draw(20), .attempt = id});
            frees[id] = {draw(4), draw(4)};
        }
        std::sort(all.begin(), all.end());
        const std::array<std::int64_t, 2> needs{1 + draw(5), draw(5)};
        const auto enough = [&](const core::Victims& some) {
            std::array<std::int64_t, 2> sum{};
            for (const core::Victim& one : some)
                for (std::size_t kind = 0; kind < 2; ++kind) sum[kind] += frees.at(one.attempt)[kind];
            return sum[0] >= needs[0] && sum[1] >= needs[1];
        };
        const auto possible = [&](const core::Victims& some) {
            std::int64_t sum = 0;
            for (const core::Victim& one : some) sum += frees.at(one.attempt)[0];
            return sum >= needs[0];
        };
        if (!enough(all)) continue;
        std::int64_t least = INT64_MAX;
        for (std::uint32_t set = 1; set < 1U << all.size(); ++set) {
            core::Victims some;
            std::int64_t lost = 0;
            for (std::size_t i = 0; i < all.size(); ++i)
                if ((set >> i & 1U) != 0) some.push_back(all[i]), lost += all[i].lost;
            if (enough(some)) least = std::min(least, lost);
        }
        const auto sum = [](const core::Victims& some) {
            std::int64_t lost = 0;
            for (const core::Victim& one : some) lost += one.lost;
            return lost;
        };
        const core::Victims exact = core::cheapest(all, {enough, possible, 1'000}),
                            bounded = core::cheapest(all, {enough, possible, 4});
        CHECK(enough(exact));
        CHECK(sum(exact) == least);
        CHECK(enough(bounded));
        CHECK(sum(bounded) >= least);
    }
}

namespace {

struct Crowd {  // a node full of small runs of low priority
    World world;
    std::vector<RunId> low;
    explicit Crowd(int count, std::uint32_t gpus = 0) {
        world.tell(QueuesConfigured{.queues = preempting(0), .by = ""});
        world.nodes(1, 64, gpus == 0 ? static_cast<std::uint32_t>(count) : gpus);
        for (int i = 0; i < count; ++i)
            low.push_back(
                runs_in(world, "batch", {.name = "low" + std::to_string(i), .gpus = units(1), .priority = 10}));
    }
    RunId urgent(const std::string& name, std::int64_t gpus) {
        return submit_to(world, "other", {.name = name, .gpus = units(gpus), .priority = 90});
    }
    auto asked() const {
        return std::count_if(low.begin(), low.end(), [&](RunId id) { return is_preempted(world, id); });
    }
    auto running() const {
        return std::count_if(low.begin(), low.end(), [&](RunId id) {
            return world.attempt(id).state == AttemptState::running && world.run(id).attempts == 1;
        });
    }
};

}  // namespace

TEST_CASE("who was asked goes when another run that may have the room still lacks it", "[preemption]") {
    Crowd crowd(3);
    World& world = crowd.world;
    const RunId urgent = crowd.urgent("urgent", 3), next = crowd.urgent("next", 3);
    world.pass(5'000);
    world.tell(RunStopAsked{.run = urgent, .by = "ana"});
    CHECK(crowd.asked() == 3);
    CHECK(to_text(world.attempt(crowd.low[0]).request->why) == "gives way to next (priority 90, queue \"other\")");
    world.pass(60'000);
    for (const RunId id : crowd.low) world.empties(id);
    CHECK(world.run(next).state == RunState::starting);
}

TEST_CASE("no more go than are needed when they commit, or at the deadline", "[preemption]") {
    for (const bool commit : {true, false}) {
        Crowd crowd(3, 4);
        World& world = crowd.world;
        const RunId other = runs_in(world, "default", {.name = "other", .gpus = units(1)});
        const RunId urgent = crowd.urgent("urgent", 3);
        CHECK(crowd.asked() == 3);
        world.exits(other, 0, exit_code(0));
        world.empties(other);
        if (commit)
            for (const RunId id : crowd.low) world.commits(id, "checkpoint_000001-a001");
        else
            world.pass(60'000);
        CHECK(crowd.running() == 1);
        for (const RunId id : crowd.low)
            if (world.attempt(id).state == AttemptState::stopping) world.empties(id);
        CHECK(world.run(urgent).state == RunState::starting);
        world.pass(1'000);
        CHECK(crowd.running() == 1);
    }
}

TEST_CASE("an elastic run keeps its size when nobody needs the part any more", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(0), .by = ""});
    world.nodes(1, 64, 4);
    const RunId wide = can_shrink(world);
    const RunId urgent = submit_to(world, "other", {.name = "urgent", .gpus = units(2), .priority = 50});
    REQUIRE(is_preempted(world, wide));
    world.tell(RunStopAsked{.run = urgent, .by = "ana"});
    CHECK_FALSE(is_preempted(world, wide));
    world.commits(wide, "checkpoint_000001-a001");
    CHECK(world.run(wide).state == RunState::running);
    CHECK(world.attempt(wide).workers.size() == 4);
}

TEST_CASE("a run that was asked to grow gives way all the same", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(0), .by = ""});
    world.nodes(1, 64, 2);
    const RunId wide =
        runs_in(world, "batch", {.name = "wide", .workers = 4, .gpus = units(1), .priority = 10, .workers_min = 2});
    world.tell(node("n2", 64, 2));
    world.pass(40'000);
    REQUIRE(is_preempted(world, wide));
    REQUIRE(world.attempt(wide).request->reason == RequestReason::resize);
    const RunId urgent = submit_to(world, "other", {.name = "urgent", .workers = 2, .gpus = units(2), .priority = 90});
    CHECK(world.attempt(wide).request->reason == RequestReason::preemption);
    world.pass(60'000);
    world.empties(wide);
    CHECK(world.run(urgent).state == RunState::starting);
}

TEST_CASE("a run on a node that drains without a deadline gives way, and is asked to move when it need not",
          "[preemption]") {
    for (const bool stopped : {false, true}) {
        World world;
        world.tell(QueuesConfigured{.queues = preempting(0), .by = ""});
        world.nodes(2, 64, 2);
        const RunId low = runs_in(world, "batch", {.name = "low", .workers = 2, .gpus = units(2), .priority = 10});
        world.tell(NodeDrained{.node = {"n1"}, .by = "ana", .reason = ""});
        REQUIRE(is_preempted(world, low));
        REQUIRE(world.attempt(low).request->reason == RequestReason::drain);
        const RunId urgent = submit_to(world, "other", {.name = "urgent", .gpus = units(2), .priority = 90});
        CHECK(world.attempt(low).request->reason == RequestReason::preemption);
        if (stopped) {
            world.tell(RunStopAsked{.run = urgent, .by = "ana"});
            REQUIRE(is_preempted(world, low));
            CHECK(world.attempt(low).request->reason == RequestReason::drain);
            continue;
        }
        world.pass(60'000);
        world.empties(low);
        CHECK(world.run(urgent).state == RunState::starting);
    }
}

TEST_CASE("who stops at its next checkpoint is given a deadline, as long as others need its room", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(0), .by = ""});
    world.nodes(1, 64, 2);
    const RunId low = runs_in(world, "batch", {.name = "low", .gpus = units(2), .priority = 10});
    world.tell(RunStopAsked{.run = low, .by = "ana", .checkpoint = true});
    REQUIRE(world.attempt(low).request->reason == RequestReason::stop);
    const RunId urgent = submit_to(world, "other", {.name = "urgent", .gpus = units(2), .priority = 90});
    CHECK(world.attempt(low).request->deadline == Time{world.now.ms + 60'000});
    world.tell(RunStopAsked{.run = urgent, .by = "ana"});
    CHECK_FALSE(world.attempt(low).request->deadline);
    world.pass(120'000);
    CHECK(world.run(low).state == RunState::running);
    const RunId again = submit_to(world, "other", {.name = "again", .gpus = units(2), .priority = 90});
    world.pass(60'000);
    world.empties(low);
    CHECK(world.run(low).state == RunState::stopped);
    CHECK(world.run(again).state == RunState::starting);
}

TEST_CASE("rtrain resize of a run that shrinks for others does not leave them waiting", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = preempting(0), .by = ""});
    world.nodes(1, 64, 4);
    const RunId wide = can_shrink(world);
    submit_to(world, "other", {.name = "urgent", .gpus = units(2), .priority = 50});
    REQUIRE(is_preempted(world, wide));
    for (const std::uint32_t workers : {4U, 3U}) {
        world.tell(RunResizeAsked{.run = wide, .by = "ana", .workers = workers});
        REQUIRE(is_preempted(world, wide));
        CHECK(world.attempt(wide).request->workers == 2);
        CHECK(world.attempt(wide).request->deadline);
    }
}

namespace {

Queues lab(std::int64_t all, std::int64_t each) {
    Queues queues;
    queues.rules = {{"default", {}},
                    {"lab", {.quota = {{"GPU", units(all)}}}},
                    {"text", {.parent = "lab", .quota = {{"GPU", units(each)}}}},
                    {"vision", {.parent = "lab", .quota = {{"GPU", units(each)}}}}};
    return queues;
}

}  // namespace

TEST_CASE("what a queue reclaims is kept for it, not taken by another queue", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = lab(8, 4), .by = ""});
    world.nodes(1, 64, 8);
    const RunId before = runs_in(world, "text", {.name = "before", .gpus = units(4)});
    world.pass(3'600'000);  // text has used more than its share
    world.exits(before, 0, exit_code(0));
    world.empties(before);
    const RunId one = runs_in(world, "vision", {.name = "one", .gpus = units(4)});
    const RunId two = runs_in(world, "vision", {.name = "two", .gpus = units(4)});
    const RunId claimant = submit_to(world, "text", {.name = "mine", .gpus = units(4)});
    const RunId goes = is_preempted(world, one) ? one : two;
    REQUIRE(is_preempted(world, goes));
    const RunId other = submit_to(world, "default", {.name = "other", .gpus = units(4)});
    world.pass(60'000);
    world.empties(goes);
    CHECK(world.run(claimant).state == RunState::starting);
    CHECK(world.run(other).state == RunState::queued);
}

TEST_CASE("what a queue reclaims is not lent again, whatever the priority of who would borrow it", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = lab(8, 4), .by = ""});
    world.nodes(1, 64, 16);
    for (const char* name : {"one", "two"}) runs_in(world, "vision", {.name = name, .gpus = units(4)});
    const RunId claimant = submit_to(world, "text", {.name = "mine", .gpus = units(3)});
    const RunId goes = is_preempted(world, {1}) ? RunId{1} : RunId{2};
    const RunId more = submit_to(world, "vision", {.name = "more", .gpus = units(2), .priority = 90});
    world.pass(60'000);
    world.empties(goes);
    CHECK(world.run(claimant).state == RunState::starting);
    CHECK(world.run(more).state == RunState::queued);
}

TEST_CASE("no more is reclaimed than was lent", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = lab(16, 8), .by = ""});
    world.nodes(2, 64, 8);
    std::vector<RunId> lent;
    for (int i = 0; i < 6; ++i)
        lent.push_back(runs_in(world, "vision",
                               {.name = "lent" + std::to_string(i), .gpus = units(2), .placement = Strategy::spread}));
    const auto asked = [&] {
        return std::count_if(lent.begin(), lent.end(), [&](RunId id) { return is_preempted(world, id); });
    };
    // Three runs on one node would leave vision 6 of its 8 GPUs.
    submit_to(world, "text", {.name = "wide", .gpus = units(8)});
    CHECK(asked() == 0);
    submit_to(world, "text", {.name = "fits", .workers = 3, .gpus = units(2)});
    CHECK(asked() == 1);
}

namespace {

Queues deep(std::int64_t b1 = 0, std::int64_t b2 = 0) {
    Queues queues;
    const auto quota = [](std::int64_t gpus) { return gpus == 0 ? Resources{} : Resources{{"GPU", units(gpus)}}; };
    queues.rules = {{"default", {}},
                    {"lab", {.quota = quota(8)}},
                    {"teamA", {.parent = "lab", .quota = quota(4)}},
                    {"teamB", {.parent = "lab", .quota = quota(4)}},
                    {"a1", {.parent = "teamA"}},
                    {"b1", {.parent = "teamB", .quota = quota(b1)}},
                    {"b2", {.parent = "teamB", .quota = quota(b2)}}};
    return queues;
}

}  // namespace

TEST_CASE("what a team has lent comes back to the queues below it", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = deep(), .by = ""});
    world.nodes(1, 64, 8);
    const RunId one = runs_in(world, "b1", {.name = "one", .gpus = units(4)});
    const RunId two = runs_in(world, "b1", {.name = "two", .gpus = units(4)});
    const RunId claimant = submit_to(world, "a1", {.name = "mine", .gpus = units(4)});
    REQUIRE(is_preempted(world, one) != is_preempted(world, two));
    const RunId goes = is_preempted(world, one) ? one : two;
    const RunId more = submit_to(world, "b1", {.name = "more", .gpus = units(4), .priority = 90});
    world.pass(60'000);
    world.empties(goes);
    CHECK(world.run(claimant).state == RunState::starting);
    CHECK(world.run(more).state == RunState::queued);
    const RunId further = submit_to(world, "a1", {.name = "further", .gpus = units(1)});
    CHECK_FALSE(is_preempted(world, goes == one ? two : one));  // that run is within teamB's own quota
    CHECK(world.run(further).state == RunState::queued);
}

TEST_CASE("a queue within its own quota gives nothing back, however much its team has borrowed", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = deep(2, 2), .by = ""});
    world.nodes(1, 64, 8);
    const RunId large = runs_in(world, "b2", {.name = "large", .gpus = units(6)});
    world.pass(60'000);
    // Younger, so it would lose the least work.
    const RunId own = runs_in(world, "b1", {.name = "own", .gpus = units(2)});
    const RunId claimant = submit_to(world, "a1", {.name = "mine", .gpus = units(2)});
    CHECK(is_preempted(world, large));
    CHECK_FALSE(is_preempted(world, own));
    world.pass(60'000);
    world.empties(large);
    CHECK(world.run(claimant).state == RunState::starting);
}

TEST_CASE("within a team what one queue has lent to the other comes back too", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = deep(2, 2), .by = ""});
    world.nodes(1, 64, 8);
    const RunId a = runs_in(world, "a1", {.name = "a", .gpus = units(4)});
    const RunId one = runs_in(world, "b2", {.name = "one", .gpus = units(2)});
    const RunId two = runs_in(world, "b2", {.name = "two", .gpus = units(2)});
    const RunId claimant = submit_to(world, "b1", {.name = "mine", .gpus = units(2)});
    CHECK(is_preempted(world, one) != is_preempted(world, two));
    CHECK_FALSE(is_preempted(world, a));
    world.pass(60'000);
    world.empties(is_preempted(world, one) ? one : two);
    CHECK(world.run(claimant).state == RunState::starting);
}

TEST_CASE("who was asked for a run that may borrow nothing leaves at its commit", "[preemption]") {
    World world;
    Queues queues = lab(8, 4);
    queues.rules.at("text").preempt = true;
    world.tell(QueuesConfigured{.queues = queues, .by = ""});
    world.tell(node("n1", 64, 4));
    runs_in(world, "default", {.name = "in-the-way", .gpus = units(3)});
    for (const char* name : {"n2", "n3", "n4", "n5"}) world.tell(node(name, 64, 2));
    const RunId low = runs_in(world, "text", {.name = "low", .workers = 4, .gpus = units(1), .priority = 10});
    runs_in(world, "text", {.name = "high", .gpus = units(2), .priority = 90});
    submit_to(world, "vision", {.name = "claims", .gpus = units(4)});
    const RunId claimant = submit_to(world, "text", {.name = "mine", .gpus = units(2), .priority = 90});
    REQUIRE(is_preempted(world, low));
    world.pass(10'000);
    world.commits(low, "checkpoint_000001-a001");
    CHECK(world.attempt(low).state == AttemptState::stopping);
    world.empties(low);
    CHECK(world.run(claimant).state == RunState::starting);
}

TEST_CASE("a run that no present nodes could hold claims nothing back", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = lab(8, 4), .by = ""});
    world.nodes(4, 64, 2);
    runs_in(world, "text", {.name = "own", .workers = 5, .gpus = units(1)});
    submit_to(world, "vision", {.name = "never", .gpus = units(4)});
    const RunId borrows = submit_to(world, "text", {.name = "borrows", .gpus = units(1)});
    CHECK(world.run(borrows).state == RunState::starting);
}

TEST_CASE("what waits for nodes is lent only as far as ends before give it back", "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = lab(16, 8), .by = ""});
    world.nodes(2, 64, 8);
    constexpr std::int64_t six_hours = 6 * 3'600'000;
    for (const char* name : {"a", "b"})
        runs_in(world, "text",
                {.name = name, .gpus = units(4), .placement = Strategy::spread, .wall_time = Duration{six_hours}});
    const RunId waits = submit_to(world, "vision", {.name = "waits", .gpus = units(8)});
    REQUIRE_FALSE(world.run(waits).nodes_reserved.empty());
    const std::int64_t asked = GENERATE(4, 5);
    const RunId for_long = submit_to(world, "text", {.name = "for-long", .gpus = units(asked)});
    if (asked == 4) {  // "a" returns 4 GPUs when "waits" starts with 8, and "b" still has 4
        CHECK(world.run(for_long).state == RunState::starting);
        return;
    }
    CHECK(to_text(world.run(for_long).reason).find("claims its own back") != std::string::npos);
    const RunId is_short =
        submit_to(world, "text", {.name = "short", .gpus = units(4), .wall_time = Duration{600'000}});
    CHECK(world.run(is_short).state == RunState::starting);
}

TEST_CASE("no more is kept back for the runs of a queue than its own quota, and for none of them from itself",
          "[preemption]") {
    World world;
    world.tell(QueuesConfigured{.queues = lab(24, 8), .by = ""});
    const Sums eight{{"GPU", Sum{units(8).ticks}}}, nine{{"GPU", Sum{units(9).ticks}}};
    core::Quotas quotas(world.cluster);
    quotas.count("text", eight);
    std::vector<Run> waiting(2);
    for (Run& run : waiting) {
        run.id = {static_cast<std::uint64_t>(&run - waiting.data()) + 1};
        run.spec.queue = "vision";
        quotas.withhold(run, eight);
    }
    CHECK_FALSE(quotas.refuses("text", eight));
    CHECK(quotas.refuses("text", nine)->claimed);
    quotas.count("vision", eight);
    CHECK(quotas.refuses("vision", eight));
    CHECK_FALSE(quotas.refuses("vision", eight, {.run = {1}}));
}

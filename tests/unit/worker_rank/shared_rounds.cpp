// A rank's part in the shared report memory: rounds with the agent, and rounds that ranks pass without it.
#include "runtime/worker/rank/shared_rounds.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;
using namespace std::chrono_literals;

namespace {

constexpr Clock::time_point offer_time{200s};

// An agent's memory for two ranks of one node.
struct OneNode {
    ReportMemory agent = std::move(ReportMemory::create(2)).value();
    SharedRounds rank[2];
    explicit OneNode(Upload upload = Upload::async) {
        for (std::uint32_t ring : {0U, 1U}) {
            agent.clear(ring);
            REQUIRE(rank[ring].open(agent.descriptor(), {.ring = ring, .alone = true, .upload = upload}, offer_time));
        }
    }
};

Report staged(std::uint64_t index) { return {.index = index, .checkpoint = StagedFiles{.path = "/stage"}}; }

}  // namespace

TEST_CASE("an invalid descriptor leaves the memory out of use") {
    SharedRounds rounds;
    CHECK_FALSE(rounds.open(-1, {.alone = true}, offer_time));
    CHECK_FALSE(rounds.in_use());
    rounds.detach();
    CHECK_FALSE(rounds.is_detached());
}

TEST_CASE("the last rank of a round notifies the agent, which passes it") {
    OneNode node;
    CHECK(node.rank[0].post(1, "----frame 0", -1));
    node.agent.pass(0, false);
    CHECK_FALSE(node.rank[0].arrive(1, true));
    CHECK(node.rank[1].post(1, "----frame 1", -1));
    CHECK(node.rank[1].arrive(1, true));
    std::uint64_t taken = 0;
    std::string frame;
    node.agent.take(0, taken, [&](ReportMemory::Posted posted) { frame = posted.frame; });
    CHECK(frame == "frame 0");
    CHECK_FALSE(node.rank[0].is_released(1));
    node.agent.pass(1, false);
    CHECK(node.rank[0].is_released(1));
    CHECK(node.rank[0].heard() == 1);
}

TEST_CASE("messages and detachments are taken once") {
    OneNode node;
    CHECK_FALSE(node.rank[0].take_messages());
    node.agent.count_message(0);
    CHECK(node.rank[0].take_messages());
    CHECK_FALSE(node.rank[0].take_messages());
    CHECK_FALSE(node.rank[0].take_detachments());
    node.rank[1].detach();
    CHECK(node.rank[0].take_detachments());
    CHECK_FALSE(node.rank[0].take_detachments());
}

TEST_CASE("a wake-up after the last look ends a wait at once") {
    OneNode node;
    node.rank[0].see_wakeups();
    const SharedRounds::Wait wait = node.rank[0].wait();
    CHECK_FALSE(wait.until_woken(1ms));
    node.agent.wake_all();
    CHECK(wait.until_woken(10s));
}

TEST_CASE("an agent without beats for 0.6 s is silent") {
    OneNode node;
    SharedRounds& rank = node.rank[0];
    CHECK_FALSE(rank.agent_is_silent(offer_time));
    for (auto since = 200ms; since <= 600ms; since += 200ms) CHECK_FALSE(rank.agent_is_silent(offer_time + since));
    CHECK(rank.agent_is_silent(offer_time + 800ms));
    node.agent.beat();
    CHECK_FALSE(rank.agent_is_silent(offer_time + 900ms));
}

TEST_CASE("silence does not count while the rank does not look") {
    OneNode node;
    CHECK_FALSE(node.rank[0].agent_is_silent(offer_time));
    CHECK_FALSE(node.rank[0].agent_is_silent(offer_time + 1h));
}

TEST_CASE("ranks pass a round without an agent once all are detached") {
    OneNode node;
    for (SharedRounds& rank : node.rank) {
        rank.announce(staged(1), 0, false);
        rank.arrive(1, false);
    }
    CHECK_FALSE(node.rank[0].pass_detached(1));
    node.rank[0].detach();
    CHECK_FALSE(node.rank[0].pass_detached(1));
    CHECK_FALSE(node.rank[0].all_arrived_detached(1));
    node.rank[1].detach();
    CHECK(node.rank[0].all_arrived_detached(1));
    CHECK(node.rank[0].pass_detached(1));
    CHECK(node.rank[1].has_files_of_all(1));
    node.rank[0].leave();
    CHECK_FALSE(node.rank[0].in_use());
    CHECK_FALSE(node.rank[0].is_detached());
}

TEST_CASE("a round with files that must be stored first waits for an agent") {
    OneNode node(Upload::sync);
    for (SharedRounds& rank : node.rank) {
        rank.announce(staged(1), 0, false);
        rank.arrive(1, false);
        rank.detach();
    }
    CHECK_FALSE(node.rank[0].pass_detached(1));
}

TEST_CASE("a round after the job's stop waits for an agent") {
    OneNode node;
    for (SharedRounds& rank : node.rank) {
        rank.announce({.index = 2}, 1, false);
        rank.arrive(2, false);
        rank.detach();
    }
    CHECK_FALSE(node.rank[0].pass_detached(2));
}

TEST_CASE("a rank that could not stage its files leaves the round without files") {
    OneNode node;
    Report failed = {.index = 1, .checkpoint_error = "the disk is full"};
    node.rank[0].announce(failed, 0, false);
    node.rank[1].announce(staged(1), 0, false);
    CHECK_FALSE(node.rank[1].has_files_of_all(1));
    CHECK(node.rank[1].stores(staged(1)));
    CHECK_FALSE(node.rank[1].stores(failed));
}

// Checkpoints that are on their way when their node is removed or lost.
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

constexpr const char* directory = "checkpoint_000001-a001";

json run_of(const HeadUnderTest& head) { return head.call("GET", "/v1/runs/digits").body; }

// Starts the run "digits", which reports a checkpoint and then a report without one.
protocol::AttemptRef reported(const HeadUnderTest& head, HandMadeAgent& agent) {
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("digits")}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    agent.tell(
        protocol::Reported{.attempt = attempt, .index = 1, .metrics_json = {{0, "{}"}}, .checkpoint = directory});
    agent.tell(protocol::Reported{.attempt = attempt, .index = 2, .metrics_json = {{0, "{}"}}});
    REQUIRE(eventually([&] { return run_of(head)["last_report"].value("index", 0) == 2; }));
    return attempt;
}

}  // namespace

TEST_CASE("a checkpoint on its way when its node is removed counts as lost") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    const auto attempt = reported(head, agent);
    int lost = 0;
    SECTION("not committed") { lost = 1; }
    SECTION("committed") {
        agent.tell(protocol::Committed{.attempt = attempt, .directory = directory, .index = 1, .world_size = 1});
        REQUIRE(eventually([&] { return run_of(head)["checkpoints"] == 1; }));
    }
    SECTION("given up before, and counted then") {
        agent.tell(protocol::Notice{.attempt = attempt, .text = "given up", .reason = "checkpoint_given_up"});
        REQUIRE(eventually([&] { return run_of(head)["checkpoints_lost"] == 1; }));
        lost = 1;
    }
    REQUIRE(head.call("POST", "/v1/nodes/n1/leave").status == 200);
    CHECK(run_of(head)["checkpoints_lost"] == lost);
}

TEST_CASE("a checkpoint on its way when its node is lost counts as lost") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path, .node_timeout_ms = 300});
    const net::Endpoint node = join(head, "n1");
    {
        HandMadeAgent agent(node, "n1");
        reported(head, agent);
    }
    CHECK(eventually([&] { return run_of(head)["checkpoints_lost"] == 1; }));
    CHECK(says(head.call("GET", "/v1/runs/digits"), "checkpoint_000001-a001 was on its way when node n1 was lost"));
}

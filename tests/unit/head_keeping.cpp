// What the head lets go of: logs past their time, and what agents keep of a removed run.
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

TEST_CASE("logs past logs.keep go at the head's next start") {
    const TemporaryFolder folder;
    std::string admin;
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        HandMadeAgent agent(join(head, "n1"), "n1");
        agent.register_node();
        json spec = job("short");
        spec["logs"] = {{"keep", "1ms"}};
        REQUIRE(head.call("POST", "/v1/runs", {{"job", spec}}).status == 201);
        const auto attempt = start_attempt(agent, 1);
        agent.say(protocol::LogChunk{.attempt = attempt, .stream = "out", .bytes = "a line\n"});
        CHECK(agent.expect<protocol::LogAck>().offset == 7);
        end_well(agent, attempt, 1);
        REQUIRE(eventually([&] { return state_of(head, "short") == "SUCCEEDED"; }));
        CHECK(head.call("GET", "/v1/runs/short/logs").text.find("a line") != std::string::npos);
    }
    HeadUnderTest head({.data_dir = folder.path});
    head.admin = admin;
    CHECK(eventually([&] { return head.call("GET", "/v1/runs/short/logs").text.empty(); }));
}

TEST_CASE("agents are told to let go of the attempts of a removed run") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("gone")}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    end_well(agent, attempt, 1);
    REQUIRE(eventually([&] { return state_of(head, "gone") == "SUCCEEDED"; }));
    REQUIRE(head.call("DELETE", "/v1/runs/gone").status == 200);
    CHECK(agent.expect<protocol::Forget>().attempt == attempt);
}

// Concurrent changes of queues: each is applied to the queues at the time of its decision.
#include <future>

#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

TEST_CASE("queue changes sent at once all take effect and are audited") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    REQUIRE(head.call("PUT", "/v1/queues/default", {{"share", 1}}).status == 200);
    constexpr int rounds = 10, at_once = 4;
    for (int round = 0; round < rounds; ++round) {
        std::vector<std::future<int>> answers;
        for (int i = 0; i < at_once; ++i)
            answers.push_back(std::async(std::launch::async, [&, i] {
                const std::string queue = "q" + std::to_string(round) + "-" + std::to_string(i);
                return head.call("PUT", "/v1/queues/" + queue, {{"share", 2}}).status;
            }));
        for (std::future<int>& answer : answers) CHECK(answer.get() == 200);
    }
    const std::string queues = head.call("GET", "/v1/queues").text;
    const std::string audit = head.call("GET", "/v1/audit?limit=1000").text;
    for (int round = 0; round < rounds; ++round)
        for (int i = 0; i < at_once; ++i) {
            const std::string queue = "q" + std::to_string(round) + "-" + std::to_string(i);
            CHECK(queues.find('"' + queue + '"') != std::string::npos);
            CHECK(audit.find("/v1/queues/" + queue) != std::string::npos);
        }
}

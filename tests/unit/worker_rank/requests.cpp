// Requests of the agent to a rank, and the grace after a stop.
#include "runtime/worker/rank/requests.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;
using namespace std::chrono_literals;

namespace {

constexpr Clock::time_point request_time{100s};

}  // namespace

TEST_CASE("a checkpoint request lasts until a checkpoint is reported") {
    AgentRequests requests;
    CHECK(requests.wanted() == 0);
    CHECK(requests.json(requests.wanted()).empty());
    requests.on_message({.what = Wish::checkpoint, .reason = "resize", .deadline_wall_ms = 7, .workers = 4},
                        request_time);
    CHECK(requests.wanted() == 1);
    CHECK(requests.json(1) == R"({"what":"checkpoint","reason":"resize","deadline_wall_ms":7,"workers":4})");
    requests.checkpoint_reported();
    CHECK(requests.wanted() == 0);
}

TEST_CASE("a checkpoint does not end a stop request") {
    AgentRequests requests;
    requests.on_message({.what = Wish::stop, .reason = "stop"}, request_time);
    requests.checkpoint_reported();
    CHECK(requests.wanted() == 2);
    CHECK(requests.json(2) == R"({"what":"stop"})");
}

TEST_CASE("a repeated stop does not extend the grace") {
    AgentRequests requests;
    CHECK_FALSE(requests.stop_is_overdue(request_time));
    requests.on_message({.what = Wish::stop}, request_time);
    requests.on_message({.what = Wish::stop}, request_time + 900ms);
    CHECK_FALSE(requests.stop_is_overdue(request_time + 1s));
    CHECK(requests.stop_is_overdue(request_time + 1001ms));
}

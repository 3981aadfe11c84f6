#include "daemon/agent/loop/agent_loop.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

struct Steps {  // the actions of a loop, in order
    AgentLoop loop;
    std::vector<std::string> done;
    std::vector<WorkerMessage> reports;
    std::function<void(const Output&)> performing = [](const Output&) {};

    Steps() {
        loop.connect(
            {.posted = [this] { return std::exchange(reports, {}); },
             .check = [this](WorkerMessage& message) { done.push_back("check " + std::to_string(message.rank)); },
             .perform =
                 [this](const Output& output) {
                     done.push_back("perform " + std::to_string(output.index()));
                     performing(output);
                 },
             .wake = [this] { done.push_back("wake"); }});
        AgentState state;
        state.node = "n1";
        loop.begin(std::move(state));
    }
};

}  // namespace

TEST_CASE("what an output brings about waits until the step before it is performed") {
    Steps steps;
    bool inside = false;
    steps.performing = [&](const Output& output) {
        CHECK_FALSE(inside);
        inside = true;
        if (std::holds_alternative<ToHead>(output)) steps.loop.enqueue(HeadDisconnected{});
        CHECK(steps.loop.state().connected);  // the input above was not processed yet
        inside = false;
    };
    steps.loop.enqueue(HeadConnected{});
    CHECK_FALSE(steps.loop.state().connected);
    CHECK(std::count(steps.done.begin(), steps.done.end(), "wake") == 2);
    CHECK(steps.done.front() == "perform 0");  // ToHead: the registration
}

TEST_CASE("reports in shared memory are taken before the input that comes after them") {
    Steps steps;
    steps.reports = {WorkerMessage{.attempt = {1, 0}, .rank = 7, .message = {}}};
    steps.loop.enqueue(WorkerMessage{.attempt = {1, 0}, .rank = 3, .message = {}});
    CHECK(steps.done == std::vector<std::string>{"check 7", "wake", "check 3", "wake"});
}

TEST_CASE("an input from another thread is taken on the loop's, and a timer is set for what is due") {
    Steps steps;
    std::thread::id taken_on;
    int heartbeats = 0;  // the first is sent with the welcome, the second by a timer alone
    steps.performing = [&](const Output& output) {
        if (std::holds_alternative<ToHead>(output)) taken_on = std::this_thread::get_id();
        if (std::holds_alternative<SendHeartbeat>(output) && ++heartbeats == 2) steps.loop.net().stop();
    };
    std::thread other([&] {
        steps.loop.enqueue_later(HeadConnected{});
        steps.loop.enqueue_later(HeadMessage{protocol::Welcome{.heartbeat_ms = 20}});
    });
    steps.loop.net().run();
    other.join();
    CHECK(taken_on == std::this_thread::get_id());
}

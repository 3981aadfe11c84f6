// The node is taken away: tests of the agent's machine.
#include <signal.h>

#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

std::vector<protocol::Leaving> leaving_of(const Outputs& outputs) {
    std::vector<protocol::Leaving> wishes;
    for (const ToHead& one : all<ToHead>(outputs)) {
        if (const auto* wish = std::get_if<protocol::Leaving>(&one.message)) wishes.push_back(*wish);
        if (const auto* full = std::get_if<protocol::Register>(&one.message); full && full->leaving)
            wishes.push_back(*full->leaving);
    }
    return wishes;
}

const ReclaimAsked sigterm{.why = "SIGTERM", .grace_ms = 20'000, .ends = true};

}  // namespace

TEST_CASE("an agent that drains tells the head how long its runs have, and ends once they are gone") {
    Machine machine = running();
    CHECK(leaving_of(machine.take(sigterm)) == std::vector<protocol::Leaving>{{"SIGTERM", 15'000}});

    machine.head(protocol::Stop{.attempt = {17, 1, 1}, .grace_ms = 1'000});  // the run has moved
    for (const std::uint32_t rank : {0u, 1u}) machine.take(WorkerEnded{attempt_1, rank, {.signal = SIGTERM}, 7});
    // The head has not received that the node is empty.
    CHECK(all<EndAgent>(machine.take(LogsDone{attempt_1})).empty());

    machine.now = machine.now + Duration{300};
    CHECK(all<EndAgent>(machine.head(protocol::NewsAck{machine.state.next_news - 1})).size() == 1);
    CHECK(all<EndAgent>(machine.later(60'000)).empty());  // once
}

TEST_CASE("what is still there shortly before the end gets SIGTERM, then SIGKILL, and nothing stays behind") {
    Machine machine = running();
    machine.take(sigterm);
    CHECK(all<SignalWorker>(machine.later(14'999)).empty());
    CHECK(all<SignalWorker>(machine.later(1)) ==
          std::vector<SignalWorker>{{attempt_1, 0, SIGTERM}, {attempt_1, 1, SIGTERM}});
    CHECK(all<SignalWorker>(machine.later(4'999)).empty());
    CHECK(all<SignalWorker>(machine.later(1)) ==
          std::vector<SignalWorker>{{attempt_1, 0, SIGKILL}, {attempt_1, 1, SIGKILL}});
    CHECK(all<EndAgent>(machine.later(999)).empty());
    CHECK(all<EndAgent>(machine.later(1)).size() == 1);  // whatever the head has received
}

TEST_CASE("a draining agent says so at each registration, and takes no new attempt") {
    Machine machine;
    machine.take(sigterm);  // before its first connection to the head
    machine.now = machine.now + Duration{100};
    machine.take(HeadConnected{});
    CHECK(leaving_of(machine.head(protocol::Welcome{.cluster_id = "c0ffee"})) ==
          std::vector<protocol::Leaving>{{"SIGTERM", 14'900}});
    const Outputs late = machine.head(prepare_order({}));
    CHECK(all<StartPreparation>(late).empty());
    REQUIRE(news<protocol::PrepareFailed>(late).size() == 1);
    CHECK_FALSE(news<protocol::PrepareFailed>(late)[0].permanent);
}

TEST_CASE("an agent without work ends a moment after SIGTERM") {
    Machine machine;
    machine.connect();
    CHECK(all<EndAgent>(machine.take(sigterm)).empty());
    REQUIRE(next_wake(machine.state));
    CHECK(*next_wake(machine.state) == machine.now + Duration{200});
    CHECK(all<EndAgent>(machine.later(200)).size() == 1);
}

TEST_CASE("a cloud's notice drains the node and ends no agent; SIGTERM after it does, and never later") {
    Machine machine;
    machine.connect();
    machine.take(ReclaimAsked{.why = "spot", .grace_ms = 10'000, .ends = false});
    CHECK(all<EndAgent>(machine.later(60'000)).empty());
    CHECK(all<EndAgent>(machine.take(sigterm)).size() == 1);  // nothing is left
}

TEST_CASE("the answer of a neighbour's dial goes to the head that asked") {
    Machine machine;
    machine.connect();
    const protocol::DialPeer order{.id = 7, .node = "n2", .address = "10.0.0.2", .port = 7434, .patience_ms = 1'500};
    CHECK(all<DialAgent>(machine.head(order)) == std::vector<DialAgent>{{order}});
    const Outputs out = machine.take(AgentDialled{.id = 7, .answered = true});
    REQUIRE(all<ToHead>(out).size() == 1);
    CHECK(std::get<protocol::PeerDialled>(all<ToHead>(out)[0].message) == protocol::PeerDialled{7, true});
}

// Ranks that end successfully while others still report: the coordinator ends the ranks that wait for them, on any
// node.
#include <signal.h>

#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

const Shape on_the_first{.nodes = {{0}, {1}}};
const Shape on_the_second{.nodes = {{0}, {1}}, .here = 1};
const std::vector<SignalWorker> rank_0_is_killed{{attempt_1, 0, SIGKILL}};

PeerMessage of_n2(protocol::GroupMessage message) { return {attempt_1, "n2", std::move(message)}; }
PeerMessage report_of_rank_1(std::uint64_t index) {
    return of_n2(protocol::GroupReport{.index = index, .metrics_json = {{1, "{}"}}});
}
PeerMessage released(std::uint64_t index) { return of_n2(protocol::GroupReleased{.index = index}); }
WorkerEnded well(std::uint32_t rank) { return {attempt_1, rank, {.exit_code = 0}, 5}; }

Machine adopted(const Machine& before) {
    Machine machine;
    machine.now = before.now;
    AttemptFound adoption{.saved = before.state.attempts.at(attempt_1).saved};
    for (const protocol::LaunchWorker& worker : adoption.saved.launch->workers)
        adoption.workers[worker.rank] = 100 + worker.rank;
    machine.take(adoption);
    machine.connect();
    return machine;
}
Outputs joins(Machine& machine, std::uint32_t rank, std::uint64_t next_index) {
    return machine.take(
        WorkerJoined{attempt_1, rank, {.attempt = "c0ffee-17-a1", .rank = rank, .next_index = next_index}});
}

// Returns the messages about ended ranks that a step sends to the coordinator.
std::vector<protocol::GroupArrived> ends_sent(const Outputs& outputs) {
    std::vector<protocol::GroupArrived> sent;
    for (const ToGroup& one : all<ToGroup>(outputs))
        if (const auto* arrived = std::get_if<protocol::GroupArrived>(&one.message); arrived && one.node.empty())
            sent.push_back(*arrived);
    return sent;
}

// Returns the second node's agent, whose rank 1 has passed report 1.
Machine second_after_report_1() {
    Machine machine = running(on_the_second);
    machine.take(report(1, 1));
    machine.take(released(1));
    return machine;
}
// Returns the coordinator, whose group has passed report 1.
Machine first_after_report_1() {
    Machine machine = running(on_the_first);
    machine.take(report_of_rank_1(1));
    machine.take(report(0, 1));
    return machine;
}

}  // namespace

TEST_CASE("the end of another node's rank ends the rank that waits for it, and a notice names both") {
    Machine second = second_after_report_1();
    const auto sent = ends_sent(second.take(well(1)));
    CHECK(sent == std::vector<protocol::GroupArrived>{{.index = 2, .ended = {1}}});

    Machine first = first_after_report_1();
    const bool waits_already = GENERATE(false, true);
    Outputs last;
    if (waits_already) first.take(report(0, 2));
    last = first.take(of_n2(sent.at(0)));
    if (!waits_already) {
        CHECK(all<SignalWorker>(first.later(60'000)).empty());  // rank 0 may continue without reporting
        last = first.take(report(0, 2));
    }
    const auto notices = news<protocol::Notice>(last);
    REQUIRE(notices.size() == 1);
    CHECK(notices[0].text.find("rank 1 ended after report 1, rank 0 waits in report 2") != std::string::npos);
    CHECK(all<SignalWorker>(first.later(1'000)) == rank_0_is_killed);
    const Outputs ended = first.take(WorkerEnded{attempt_1, 0, {.signal = SIGKILL}, 7});
    CHECK(news<protocol::Exited>(ended)[0].cause.detail == notices[0].text);
}

TEST_CASE("ranks of several nodes that end after equally many reports end nothing") {
    Machine second = second_after_report_1();
    const auto sent = ends_sent(second.take(well(1)));
    Machine first = first_after_report_1();
    CHECK(news<protocol::Notice>(first.take(of_n2(sent.at(0)))).empty());
    const Outputs ended = first.take(well(0));
    CHECK(news<protocol::Notice>(ended).empty());
    CHECK(all<SignalWorker>(first.later(60'000)).empty());
}

TEST_CASE("a node without a head ends the rank that waits all the same") {
    Machine first = first_after_report_1();
    first.take(HeadDisconnected{});
    first.take(report(0, 2));
    first.take(of_n2(protocol::GroupArrived{.index = 2, .ended = {1}}));
    CHECK(all<SignalWorker>(first.later(1'000)) == rank_0_is_killed);
}

TEST_CASE("a node repeats the ends of its ranks to a coordinator that it reaches again") {
    Machine second = second_after_report_1();
    second.take(GroupCut{attempt_1, ""});
    second.take(well(1));
    CHECK(ends_sent(second.take(GroupConnected{attempt_1})) ==
          std::vector<protocol::GroupArrived>{{.index = 2, .ended = {1}}});
}

TEST_CASE("a message about ranks that wait has those that have ended, so that it may replace one about these") {
    Machine second = running({.nodes = {{0}, {1, 2}}, .here = 1});
    second.take(well(1));
    second.take(report(2, 1));
    const auto sent = ends_sent(second.later(1'000));
    CHECK(sent == std::vector<protocol::GroupArrived>{{.index = 1, .ranks = {2}, .ended = {1}}});
}

TEST_CASE("a rank that ends with its report on the way has ended after that report") {
    Machine second = second_after_report_1();
    second.take(report(1, 2));
    CHECK(ends_sent(second.take(well(1))).empty());
    CHECK(ends_sent(second.take(released(2))) == std::vector<protocol::GroupArrived>{{.index = 3, .ended = {1}}});
}

TEST_CASE("a rank that ended while its node had no agent has ended after the report that passed last") {
    Machine second = adopted(second_after_report_1());
    const auto sent = ends_sent(second.take(well(1)));
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].ended.empty());
    CHECK(sent[0].ended_unwatched == std::vector<std::uint32_t>{1});

    Machine first = first_after_report_1();
    first.take(report(0, 2));
    const auto notices = news<protocol::Notice>(first.take(of_n2(sent.at(0))));
    REQUIRE(notices.size() == 1);
    CHECK(notices[0].text.find("rank 1 ended after report 1") != std::string::npos);
    CHECK(all<SignalWorker>(first.later(1'000)) == rank_0_is_killed);
}

TEST_CASE("an agent that was restarted watches the ranks that have joined it") {
    Machine second = adopted(second_after_report_1());
    joins(second, 1, 2);
    CHECK(ends_sent(second.take(well(1))) == std::vector<protocol::GroupArrived>{{.index = 2, .ended = {1}}});
}

TEST_CASE("a coordinator that was restarted learns from an end which report has passed, and releases it") {
    Machine first = adopted(first_after_report_1());
    joins(first, 0, 2);
    first.take(report(0, 2));
    const Outputs outputs = first.take(of_n2(protocol::GroupArrived{.index = 3, .ended = {1}}));
    CHECK(to_workers<worker::Reported>(outputs).size() == 1);
    CHECK(news<protocol::Notice>(outputs).empty());

    const auto notices = news<protocol::Notice>(first.take(report(0, 3)));
    REQUIRE(notices.size() == 1);
    CHECK(notices[0].text.find("rank 1 ended after report 2, rank 0 waits in report 3") != std::string::npos);
}

TEST_CASE("where neither agent knows a rank's last report, one report passes and no further one") {
    Machine first = adopted(first_after_report_1());
    joins(first, 0, 2);
    const bool waits_already = GENERATE(false, true);
    const PeerMessage end = of_n2(protocol::GroupArrived{.index = 1, .ended_unwatched = {1}});
    if (!waits_already) first.take(end);
    Outputs last = first.take(report(0, 2));
    if (waits_already) last = first.take(end);
    CHECK(to_workers<worker::Reported>(last).size() == 1);
    first.take(report(0, 3));
    CHECK(all<SignalWorker>(first.later(1'000)) == rank_0_is_killed);
}

TEST_CASE("of a rank that ended without an agent the ranks beside it wait in the next report but one") {
    Machine before = running();
    for (const std::uint32_t rank : {0U, 1U}) before.take(report(rank, 1));
    Machine machine = adopted(before);
    joins(machine, 1, 2);
    machine.take(well(0));
    CHECK(to_workers<worker::Reported>(machine.take(report(1, 2))).size() == 1);
    machine.take(report(1, 3));
    CHECK(all<SignalWorker>(machine.later(1'000)) == std::vector<SignalWorker>{{attempt_1, 1, SIGKILL}});
}

TEST_CASE("a rank that waits in a broadcast for one that has ended is ended, on one node or several") {
    const bool on_one_node = GENERATE(false, true);
    Machine machine = on_one_node ? running() : running(on_the_first);
    const WorkerMessage call{attempt_1, 0, worker::Broadcast{.index = 1, .data = "x"}};
    const bool waits_already = GENERATE(false, true);
    if (waits_already) machine.take(call);
    if (on_one_node)
        machine.take(well(1));
    else
        machine.take(of_n2(protocol::GroupArrived{.index = 1, .ended = {1}}));
    if (!waits_already) machine.take(call);
    CHECK(all<SignalWorker>(machine.later(1'000)) == rank_0_is_killed);
    const Outputs ended = machine.take(WorkerEnded{attempt_1, 0, {.signal = SIGKILL}, 7});
    CHECK(news<protocol::Exited>(ended)[0].cause.detail.find("rank 1 ended, and rank 0 waits in a call") !=
          std::string::npos);
}

TEST_CASE("a rank that ends after its last broadcast ends nobody") {
    Machine machine = running();
    for (const std::uint32_t rank : {0U, 1U})
        machine.take(WorkerMessage{attempt_1, rank, worker::Broadcast{.index = 1, .data = "x"}});
    CHECK(news<protocol::Notice>(machine.take(well(1))).empty());
    CHECK(all<SignalWorker>(machine.later(60'000)).empty());
}

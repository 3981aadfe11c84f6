// Stories of the agent's machine: no I/O, no clock.
#include "daemon/agent/machine/machine.hpp"

#include <signal.h>

#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

TEST_CASE("an attempt on one node goes from its preparation to emptied") {
    Machine machine;
    machine.connect();
    const Outputs asked = machine.head(prepare_order({}));
    CHECK(all<StartPreparation>(asked).size() == 1);

    const Outputs done =
        machine.take(PreparationDone{.attempt = attempt_1, .number = 3, .from = "checkpoint_000002-a002"});
    REQUIRE(news<protocol::Prepared>(done).size() == 1);
    CHECK(news<protocol::Prepared>(done)[0].attempt.number == 3);
    CHECK(news<protocol::Prepared>(done)[0].from == "checkpoint_000002-a002");

    auto launch = launch_order({});
    launch.attempt.number = 3;
    launch.from = "checkpoint_000002-a002";
    CHECK(all<FetchCheckpoint>(machine.head(launch)).size() == 1);
    machine.now = machine.now + Duration{250};
    CHECK(all<StartWorkers>(machine.take(CheckpointFetched{attempt_1, ""})).size() == 1);
    for (const std::uint32_t rank : {0u, 1u}) {
        const auto started = news<protocol::Started>(machine.take(WorkerStarted_{attempt_1, rank, 50 + rank}));
        REQUIRE(started.size() == 1);
        CHECK(started[0].restore_ms == 250);
        machine.take(WorkerEnded{attempt_1, rank, {.exit_code = 0}, 1});
    }
    CHECK(news<protocol::Emptied>(machine.take(LogsDone{attempt_1})).empty());  // the head has not asked yet

    const Outputs stopped = machine.head(protocol::Stop{.attempt = {17, 1, 3}});
    CHECK(news<protocol::Emptied>(stopped).size() == 1);
    CHECK(all<CloseAttempt>(stopped).size() == 1);
    CHECK(machine.state.attempts.empty());
}

TEST_CASE("emptied is said only when no process is left and the logs are flushed") {
    Machine machine = running();
    const Outputs stop = machine.head(protocol::Stop{.attempt = {17, 1, 1}, .grace_ms = 5'000});
    CHECK(all<SignalWorker>(stop) == std::vector<SignalWorker>{{attempt_1, 0, SIGTERM}, {attempt_1, 1, SIGTERM}});
    CHECK(to_workers<worker::Wanted>(stop).size() == 2);

    const Outputs first = machine.take(WorkerEnded{attempt_1, 0, {.signal = SIGTERM}, 7});
    CHECK(news<protocol::Exited>(first)[0].cause.stopped_by_us);
    CHECK(all<FinishLogs>(first).empty());
    const Outputs late = machine.later(5'000);
    CHECK(all<SignalWorker>(late) == std::vector<SignalWorker>{{attempt_1, 1, SIGKILL}});
    const Outputs last = machine.take(WorkerEnded{attempt_1, 1, {.signal = SIGKILL}, 8});
    CHECK(all<FinishLogs>(last).size() == 1);
    CHECK(news<protocol::Emptied>(last).empty());
    CHECK(news<protocol::Emptied>(machine.take(LogsDone{attempt_1})).size() == 1);
}

TEST_CASE("a worker that fails ends its neighbours at once, also while the head is away") {
    Machine machine = running();
    machine.take(HeadDisconnected{});
    machine.take(WorkerMessage{attempt_1, 1, worker::Fail{"ValueError: no such layer"}});

    const Outputs out = machine.take(WorkerEnded{attempt_1, 1, {.exit_code = 1}, 7});

    CHECK(all<SignalWorker>(out) == std::vector<SignalWorker>{{attempt_1, 0, SIGKILL}});  // it may wait for rank 1
    CHECK(news<protocol::Exited>(out)[0].cause.detail == "ValueError: no such layer");
    CHECK(all<ToHead>(out).empty());
    machine.take(HeadConnected{});
    const Outputs welcomed = machine.head(protocol::Welcome{.news_seen = 2});
    std::vector<std::uint64_t> resent;
    for (const ToHead& one : all<ToHead>(welcomed))
        if (const auto* batch = std::get_if<protocol::NewsBatch>(&one.message))
            for (const protocol::News& item : batch->items) resent.push_back(item.seq);
    CHECK(resent == std::vector<std::uint64_t>{3, 4});  // rank 1's start, its end
}

TEST_CASE("a worker that dies of the stop leaves the others their grace") {
    Machine machine = running();
    machine.head(protocol::Stop{.attempt = {17, 1, 1}, .grace_ms = 5'000});
    const Outputs out = machine.take(WorkerEnded{attempt_1, 0, {.signal = SIGTERM}, 7});
    CHECK(all<SignalWorker>(out).empty());
    CHECK(all<SignalWorker>(machine.later(4'999)).empty());
    CHECK(all<SignalWorker>(machine.later(1)) == std::vector<SignalWorker>{{attempt_1, 1, SIGKILL}});
}

TEST_CASE("orders that are repeated or about attempts nobody knows start nothing") {
    Machine machine = running();
    CHECK(all<StartPreparation>(machine.head(prepare_order({}))).empty());
    CHECK(all<FetchCheckpoint>(machine.head(launch_order({}))).empty());

    auto unknown = launch_order({});
    unknown.attempt.incarnation = 9;
    CHECK(machine.head(unknown).empty());
    const Outputs stop = machine.head(protocol::Stop{.attempt = {17, 9, 1}});
    CHECK(news<protocol::Emptied>(stop).size() == 1);
    CHECK(all<SignalWorker>(stop).empty());
}

TEST_CASE("a stop that comes during the preparation ends it, and nothing is launched") {
    Machine machine;
    machine.connect();
    machine.head(prepare_order({}));
    CHECK(news<protocol::Emptied>(machine.head(protocol::Stop{.attempt = {17, 1, 1}})).empty());

    const Outputs done = machine.take(PreparationDone{.attempt = attempt_1, .number = 1});

    CHECK(news<protocol::Prepared>(done).empty());
    CHECK(news<protocol::Emptied>(done).size() == 1);
    CHECK(all<FetchCheckpoint>(machine.head(launch_order({}))).empty());
}

TEST_CASE("a stop that overtakes the start of a worker still reaches it") {
    Machine machine;
    machine.connect();
    machine.head(prepare_order({}));
    machine.take(PreparationDone{.attempt = attempt_1, .number = 1});
    machine.head(launch_order({}));
    machine.take(CheckpointFetched{attempt_1, ""});
    CHECK(all<SignalWorker>(machine.head(protocol::Stop{.attempt = {17, 1, 1}, .grace_ms = 1'000})).empty());

    CHECK(all<SignalWorker>(machine.take(WorkerStarted_{attempt_1, 0, 5})) ==
          std::vector<SignalWorker>{{attempt_1, 0, SIGTERM}});
}

TEST_CASE("news stay on disk until the head has them, and are numbered on after a restart") {
    Machine machine;
    machine.connect();
    machine.head(prepare_order({}));
    machine.take(PreparationDone{.attempt = attempt_1, .why = "n1 cannot reach n2"});
    REQUIRE(machine.state.outbox.size() == 1);

    const Outputs acknowledged = machine.head(protocol::NewsAck{1});

    CHECK(all<DropNews>(acknowledged) == std::vector<DropNews>{{1}});
    CHECK(machine.state.outbox.empty());
    Machine fresh;  // its disk was lost, but the head has the records
    fresh.take(HeadConnected{});
    fresh.head(protocol::Welcome{.news_seen = 41});
    CHECK(fresh.state.next_news == 42);
}

TEST_CASE("a node that was taken out of the cluster ends its workers; one that is only refused goes on") {
    Machine machine = running();
    CHECK(all<SignalWorker>(machine.head(protocol::Refuse{.message = "upgrade the older of the two"})).empty());

    const Outputs left = machine.head(protocol::Refuse{.message = "node 'n1' has left the cluster", .left = true});

    CHECK(all<SignalWorker>(left) == std::vector<SignalWorker>{{attempt_1, 0, SIGTERM}, {attempt_1, 1, SIGTERM}});
    CHECK(all<SignalWorker>(machine.later(machine.state.stop_grace_ms)).size() == 2);  // SIGKILL
}

TEST_CASE("heartbeats go each second once registered, and no sooner") {
    Machine machine;
    CHECK(next_wake(machine.state) == std::nullopt);
    machine.connect();
    CHECK(next_wake(machine.state) == machine.now + Duration{1'000});
    CHECK(all<SendHeartbeat>(machine.later(999)).empty());
    CHECK(all<SendHeartbeat>(machine.later(1)).size() == 1);
}

TEST_CASE("an agent that was restarted goes on with what it finds") {
    Machine before = running();
    const SavedAttempt saved = before.state.attempts.at(attempt_1).saved;
    Machine machine;
    machine.state.next_news = 10;
    machine.take(AttemptFound{.saved = saved, .workers = {{0, 100}, {1, 101}}});
    machine.connect();
    CHECK(machine.state.attempts.at(attempt_1).phase == Phase::running);

    worker::Hello hello{.attempt = "c0ffee-17-a1", .next_index = 8, .uncommitted = {5}};
    const Outputs outputs = machine.take(WorkerJoined{attempt_1, 0, hello});
    CHECK(to_workers<worker::Committed>(outputs).size() == 1);  // 5 was given up, so that no rank waits for ever
    hello.rank = 1;
    machine.take(WorkerJoined{attempt_1, 1, hello});
    machine.take(report(0, 8));
    const Outputs passed = machine.take(report(1, 8));

    CHECK(to_workers<worker::Reported>(passed).size() == 2);
    CHECK(news<protocol::Reported>(passed)[0].index == 8);
}

TEST_CASE("what a node says before rank 0's node has begun is heard once it has: a report is not lost") {
    const Shape shape{.nodes = {{0}, {1}}};
    Machine machine;
    machine.connect();
    machine.head(prepare_order(shape));
    machine.take(PreparationDone{.attempt = attempt_1, .number = 1});
    const bool launched = GENERATE(true, false);  // its checkpoint is still being fetched, or the order is under way
    if (launched) machine.head(launch_order(shape));
    const protocol::GroupReport early{.index = 1, .metrics_json = {{1, "{}"}}};
    for (const std::string node : {"n2", "n9"}) {
        machine.take(PeerMessage{attempt_1, node, protocol::GroupJoin{.node = node}});
        machine.take(PeerMessage{attempt_1, node, early});
    }
    CHECK(machine.state.attempts.at(attempt_1).early.size() == 2);  // n9 is not a node of this attempt
    if (!launched) machine.head(launch_order(shape));
    machine.take(CheckpointFetched{attempt_1, ""});
    machine.take(WorkerStarted_{attempt_1, 0, 100});
    machine.take(WorkerJoined{attempt_1, 0, {.attempt = "c0ffee-17-a1", .rank = 0}});

    const Outputs passed = machine.take(report(0, 1));

    CHECK(to_workers<worker::Reported>(passed).size() == 1);
    REQUIRE(all<ToGroup>(passed).size() == 1);
    CHECK(std::get<protocol::GroupReleased>(all<ToGroup>(passed)[0].message).index == 1);
    CHECK(machine.state.attempts.at(attempt_1).early.empty());
}

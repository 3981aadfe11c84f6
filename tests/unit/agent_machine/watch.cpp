// Timeouts of an agent: workers that hang, and a lost connection to the head. Also the record of an attempt's end.
#include <signal.h>

#include <limits>

#include "daemon/agent/hardware/gpu_heartbeat.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

// Returns two ranks that have passed their first report, with a hang timeout of a minute.
Machine past_the_first_report() {
    Machine machine = running({.policy = {.hang_timeout_ms = 60'000}});
    machine.take(report(0, 1));
    machine.take(report(1, 1));
    return machine;
}

struct Seen {
    std::vector<SignalWorker> killed;
    std::vector<DumpStacks> stacks;
};

// Passes seconds with heartbeats of the ranks. Rank 1 uses no processor, and rank 0 none unless it waits in its report.
Seen idle_seconds(Machine& machine, int seconds) {
    Seen seen;
    for (int i = 0; i < seconds; ++i) {
        for (const std::uint32_t rank : {0u, 1u}) machine.take(WorkerMessage{attempt_1, rank, worker::Heartbeat{}});
        const Outputs out = machine.later(1'000);
        for (const SignalWorker& one : all<SignalWorker>(out)) seen.killed.push_back(one);
        for (const DumpStacks& one : all<DumpStacks>(out)) seen.stacks.push_back(one);
    }
    return seen;
}
std::vector<SignalWorker> idle(Machine& machine, int seconds) { return idle_seconds(machine, seconds).killed; }

}  // namespace

TEST_CASE(
    "a rank that does nothing for hang_timeout while another waits for it shows where, is killed, and said to hang") {
    Machine machine = past_the_first_report();
    machine.take(report(0, 2));
    const Seen before = idle_seconds(machine, 59);
    CHECK(before.killed.empty());
    REQUIRE(before.stacks.size() == 1);  // with the warning about the missing ranks, after 30 s
    CHECK(before.stacks[0].why == "the other ranks wait for it in report 2 for 30.0 s");
    const Seen first = idle_seconds(machine, 1);  // it has a second to write its stacks
    CHECK(first.killed.empty());
    REQUIRE(first.stacks.size() == 1);
    CHECK(first.stacks[0].ranks == std::vector<std::uint32_t>{1});
    CHECK(first.stacks[0].why.find("failure.hang_timeout") != std::string::npos);
    CHECK(idle_seconds(machine, 1).killed == std::vector<SignalWorker>{{attempt_1, 1, SIGKILL}});

    const Outputs ended = machine.take(WorkerEnded{attempt_1, 1, {.signal = SIGKILL}, 7});
    const ExitCause cause = news<protocol::Exited>(ended)[0].cause;
    CHECK_FALSE(cause.stopped_by_us);
    CHECK(cause.detail.find("failure.hang_timeout") != std::string::npos);
}

TEST_CASE("a rank that goes on while its stacks are written is not killed") {
    Machine machine = past_the_first_report();
    machine.take(report(0, 2));
    CHECK(idle_seconds(machine, 60).stacks.size() == 2);  // a warning, and the hang
    machine.take(WorkerMessage{attempt_1, 1, worker::Heartbeat{.cpu_ms = 900}});
    CHECK(idle(machine, 59).empty());
    CHECK(idle(machine, 3).size() == 1);
}

TEST_CASE("the head may ask where ranks are; of an attempt that does not run here nobody is asked") {
    Machine machine = running();
    const std::vector<DumpStacks> asked{{attempt_1, {1}, "ana asks"}};
    CHECK(all<DumpStacks>(machine.head(protocol::TakeStacks{{17, 1, 1}, {1}, "ana asks"})) == asked);
    CHECK(all<DumpStacks>(machine.head(protocol::TakeStacks{{18, 1, 1}, {1}, "ana asks"})).empty());
}

TEST_CASE("nothing hangs before the first report, while a checkpoint is written, or while processor or GPU are busy") {
    Machine fresh = running({.policy = {.hang_timeout_ms = 60'000}});
    CHECK(idle(fresh, 200).empty());

    Machine writes = past_the_first_report();
    for (const std::uint32_t rank : {0u, 1u}) writes.take(report_with_files(rank, 2));
    writes.take(StagedListed{.attempt = attempt_1, .index = 2, .files = {{.rank = 0, .path = "model.pt", .bytes = 1}}});
    CHECK(idle(writes, 200).empty());

    Machine computes = past_the_first_report();
    for (int i = 1; i <= 200; ++i) {
        for (const std::uint32_t rank : {0u, 1u})
            computes.take(WorkerMessage{attempt_1, rank, worker::Heartbeat{.cpu_ms = 100 * i}});
        REQUIRE(all<SignalWorker>(computes.later(1'000)).empty());
    }

    Machine on_gpu = past_the_first_report();
    for (protocol::LaunchWorker& worker : on_gpu.state.attempts.at(attempt_1).saved.launch->workers)
        worker.gpus = {worker.rank};
    for (int i = 0; i < 200; ++i) {
        on_gpu.take(GpusSampled{{0, 1}});
        REQUIRE(idle(on_gpu, 1).empty());
    }
}

TEST_CASE("a rank that stands still is killed while the manifest of a checkpoint waits, unless the ranks wait for it") {
    const bool sync = GENERATE(false, true);
    Machine machine = running({.nodes = {{2}, {0, 1}}, .here = 1, .policy = {.hang_timeout_ms = 60'000}});
    const auto released = [&](protocol::GroupReleased message) {
        machine.take(PeerMessage{attempt_1, "", std::move(message)});
    };
    for (const std::uint32_t rank : {0u, 1u}) machine.take(report(rank, 1));
    released({.index = 1});
    for (const std::uint32_t rank : {0u, 1u}) machine.take(report_with_files(rank, 2));
    const std::vector<protocol::StagedFile> files{{.rank = 0, .path = "model.pt", .bytes = 1}};
    machine.take(StagedListed{.attempt = attempt_1, .index = 2, .files = files});
    released({.index = 2, .directory = "checkpoint_000001-a001", .sync = sync});
    CHECK(idle(machine, 100).empty());  // the part is being stored
    machine.take(Uploaded{.attempt = attempt_1, .index = 2, .files = files});
    CHECK(idle(machine, 100).empty() == sync);
}

TEST_CASE("a rank that waits in a report which one that has ended can never come to is ended, and says why") {
    Machine machine = running({});
    for (const std::uint32_t rank : {0u, 1u}) machine.take(report(rank, 1));
    machine.take(WorkerEnded{attempt_1, 0, {.exit_code = 0}, 5});
    CHECK(all<SignalWorker>(machine.later(1'000)).empty());  // rank 1 may continue without reporting
    machine.take(report(1, 2));
    CHECK(all<SignalWorker>(machine.later(1'000)) == std::vector<SignalWorker>{{attempt_1, 1, SIGKILL}});
    CHECK(all<SignalWorker>(machine.later(1'000)).empty());

    const Outputs ended = machine.take(WorkerEnded{attempt_1, 1, {.signal = SIGKILL}, 7});
    const ExitCause cause = news<protocol::Exited>(ended)[0].cause;
    CHECK_FALSE(cause.stopped_by_us);
    CHECK(cause.detail.find("rank 0 ended after report 1, rank 1 waits in report 2") != std::string::npos);
}

TEST_CASE("the coordinator ends who waits on another node for a rank that has ended") {
    Machine first = running({.nodes = {{0}, {1}}});  // rank 0 is on this node
    const auto of_n2 = [](protocol::GroupMessage message) { return PeerMessage{attempt_1, "n2", std::move(message)}; };
    first.take(of_n2(protocol::GroupReport{.index = 1, .metrics_json = {{1, "{}"}}}));
    first.take(report(0, 1));
    CHECK(all<ToGroup>(first.take(WorkerEnded{attempt_1, 0, {.exit_code = 0}, 5})).empty());
    const auto sent = all<ToGroup>(first.take(of_n2(protocol::GroupReport{.index = 2, .metrics_json = {{1, "{}"}}})));
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].node == "n2");
    const auto arrived = std::get<protocol::GroupArrived>(sent[0].message);
    CHECK(arrived.hopeless.find("rank 0 ended after report 1, rank 1 waits in report 2") != std::string::npos);

    Machine second = running({.nodes = {{0}, {1}}, .here = 1});
    second.take(report(1, 1));
    second.take(PeerMessage{attempt_1, "n2", protocol::GroupReleased{.index = 1}});
    second.take(report(1, 2));
    CHECK(all<SignalWorker>(second.later(1'000)).empty());
    second.take(PeerMessage{attempt_1, "n2", arrived});
    CHECK(all<SignalWorker>(second.later(1'000)) == std::vector<SignalWorker>{{attempt_1, 1, SIGKILL}});
    const Outputs ended = second.take(WorkerEnded{attempt_1, 1, {.signal = SIGKILL}, 7});
    CHECK(news<protocol::Exited>(ended)[0].cause.detail == arrived.hopeless);
}

TEST_CASE("a report that nobody else comes to has its time") {
    Machine machine = running({.policy = {.report_timeout_ms = 600'000}});
    for (const std::uint32_t rank : {0u, 1u}) machine.take(report(rank, 1));
    machine.take(report(1, 2));
    machine.later(1'000);
    CHECK(all<SignalWorker>(machine.later(599'000)).empty());
    CHECK(all<SignalWorker>(machine.later(1'000)) == std::vector<SignalWorker>{{attempt_1, 1, SIGKILL}});
    const Outputs ended = machine.take(WorkerEnded{attempt_1, 1, {.signal = SIGKILL}, 7});
    CHECK(news<protocol::Exited>(ended)[0].cause.detail.find("backend.timeout_s") != std::string::npos);
}

TEST_CASE("without hang_timeout an idle rank is left alone") {
    Machine machine = running();
    machine.take(report(0, 1));
    machine.take(report(1, 1));
    CHECK(idle(machine, 5'000).empty());
}

TEST_CASE("an agent without its head for isolation_timeout ends its workers; one that comes back in time does not") {
    Machine machine = running({.policy = {.isolation_timeout_ms = 30'000}});
    machine.take(HeadDisconnected{});
    CHECK(next_wake(machine.state) == machine.now + Duration{30'000});
    CHECK(all<SignalWorker>(machine.later(29'000)).empty());
    const bool back = GENERATE(false, true);
    if (back) machine.connect();
    const Outputs late = machine.later(1'000);
    CHECK(all<SignalWorker>(late).size() == (back ? 0 : 2));
    CHECK(news<protocol::Notice>(late).size() == (back ? 0 : 1));
}

TEST_CASE("a rendezvous port that is taken is told apart before the first report only") {
    const bool reported = GENERATE(false, true);
    Machine machine = running();
    if (reported)
        for (const std::uint32_t rank : {0u, 1u}) machine.take(report(rank, 1));
    const Outputs out = machine.take(WorkerEnded{attempt_1, 0, {.exit_code = 1, .address_in_use = true}, 7});
    CHECK(news<protocol::Exited>(out)[0].cause.address_in_use == !reported);
}

TEST_CASE("the end of an attempt is written beside it: first what the agent knows, then the head's words") {
    Machine machine = running();
    machine.take(WorkerEnded{attempt_1, 1, {.exit_code = 3, .detail = "ValueError"}, 7});
    machine.take(WorkerEnded{attempt_1, 0, {.signal = SIGTERM}, 8});
    const auto own = all<WriteEnd>(machine.take(LogsDone{attempt_1}));
    REQUIRE(own.size() == 1);
    CHECK(own[0].end.state == "FAILED");
    CHECK(own[0].end.first_failure == 1u);
    CHECK(own[0].end.ranks.at(1) == storage::RankEnd{.exit_code = 3, .detail = "ValueError"});

    const auto written = all<WriteEnd>(machine.head(
        protocol::Stop{.attempt = {17, 1, 1}, .why = "rank 1 on n1: exited with code 3", .end_as = "FAILED"}));
    REQUIRE(written.size() == 1);
    CHECK(written[0].end.cause == "rank 1 on n1: exited with code 3");
}

TEST_CASE("a scratch directory beyond its quota is named to each attempt that uses it, once until it was below") {
    Machine machine = running();
    machine.state.scratch_quota = 100LL << 30;
    const auto measured = [&](std::int64_t gib) {
        return news<protocol::Notice>(machine.take(ScratchMeasured{{{attempt_1, gib << 30}, {{18, 2}, 1LL << 30}}}));
    };
    CHECK(measured(99).empty());
    const auto sent = measured(101);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].reason == "scratch_full");
    CHECK(sent[0].text.find("holds 102.0 GiB, its quota is 100.0 GiB (--scratch-quota)") != std::string::npos);
    CHECK(measured(105).empty());
    CHECK(measured(1).empty());
    CHECK(measured(101).size() == 1);
}

TEST_CASE("heartbeats tell how old a worker's last sign of life is, its last step and its waits") {
    Machine machine = past_the_first_report();
    machine.take(WorkerMessage{
        attempt_1, 1,
        worker::Heartbeat{
            .cpu_ms = 40, .data_wait_ms = 12, .barrier_wait_ms = 13, .barrier_waits = 14, .checkpoint_wait_ms = 15}});
    machine.now = machine.now + Duration{400};
    machine.take(report(1, 2));
    const auto beat = all<SendHeartbeat>(machine.later(600));
    REQUIRE(beat.size() == 1);
    const protocol::WorkerHeartbeat& rank_1 = beat[0].workers[1];
    CHECK(rank_1.heartbeat_age_ms == 1'000);
    CHECK(rank_1.data_wait_ms == 12);
    CHECK(rank_1.barrier_wait_ms == 13 + 600);  // it has waited in the report for 600 ms
    CHECK(rank_1.report_wait_ms == 600);
    CHECK(beat[0].workers[0].report_wait_ms == 0);  // it has not reached the report
    CHECK(rank_1.barrier_waits == 14);
    CHECK(rank_1.checkpoint_wait_ms == 15);
    CHECK(rank_1.interval_ms == 400);
    CHECK(beat[0].workers[0].heartbeat_age_ms == -1);
}

TEST_CASE("GPUs are told of in the scheduler's order; what a device does not tell is left open, and counts as busy") {
    std::vector<GpuDevice> devices(3);
    for (std::size_t i = 0; i < 3; ++i) devices[i].uuid = "GPU-" + std::to_string(i);
    GpuStats idle_one, busy_one;
    idle_one.uuid = "GPU-2";
    idle_one.power_watts = 61.5;
    idle_one.temperature_celsius = std::numeric_limits<double>::quiet_NaN();
    busy_one.uuid = "GPU-0";
    busy_one.utilization_ratio = 0.9;
    busy_one.xids = {{79, 1}};
    busy_one.ecc_uncorrected = 2;
    busy_one.processes = {{.pid = 7, .memory_bytes = 100}, {.pid = 8, .memory_bytes = 30}, {.pid = 9}};

    const auto heartbeats = gpu_heartbeats({idle_one, busy_one}, devices, [](std::int64_t pid) { return pid != 7; });

    REQUIRE(heartbeats.size() == 3);
    CHECK(heartbeats[0].utilization_percent == 90);
    CHECK(heartbeats[0].xids.at(79) == 1);
    CHECK(heartbeats[0].ecc_corrected == -1);
    CHECK(heartbeats[0].ecc_uncorrected == 2);
    CHECK(heartbeats[0].foreign_processes == 2);
    CHECK(heartbeats[0].foreign_memory == 30);
    CHECK(heartbeats[1] == protocol::GpuHeartbeat{.uuid = "GPU-1"});
    CHECK(heartbeats[2].power_mw == 61'500);
    CHECK(heartbeats[2].temperature_c == -1);
    CHECK(heartbeats[2].foreign_processes == -1);
    CHECK(busy_gpus(heartbeats) == std::set<std::uint32_t>{0, 1});
}

TEST_CASE("a GPU that fell off the bus keeps its Xid errors, and tells nothing else") {
    std::vector<GpuDevice> devices(1);
    devices[0].uuid = "GPU-0";
    GpuStats lost{.uuid = "GPU-0", .answers = false};
    lost.xids = {{79, 1}};

    const auto heartbeats = gpu_heartbeats({lost}, devices, [](std::int64_t) { return true; });

    protocol::GpuHeartbeat wanted{.uuid = "GPU-0"};
    wanted.xids = {{79, 1}};
    CHECK(heartbeats == std::vector{wanted});
    CHECK_FALSE(heartbeats[0].answers());
}

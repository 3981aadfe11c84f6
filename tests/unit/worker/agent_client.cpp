// The messages of a rank to its agent, and to the agent after it. No thread of the rank runs: the test plays the agent.
#include "runtime/worker/agent_client.hpp"

#include <thread>

#include "tests/unit/catch.hpp"
#include "tests/unit/fake_agent.hpp"

using namespace rtrain::worker;
using namespace std::chrono_literals;

namespace {

struct OneRank {
    FakeAgent agent;
    AgentClient client{Settings{.socket = agent.path(), .key = "secret", .attempt = "r1-a1", .rank = 0}, 100};

    // Connects the rank to its agent, which answers with `welcome`. Returns the rank's hello.
    Hello connect(const Welcome& welcome = {}, Place place = Place::wanted) {
        Hello hello;
        std::thread answering([&] {
            agent.accept();
            hello = agent.receive<Hello>();
            agent.send(welcome);
        });
        client.dial(place);
        answering.join();
        return hello;
    }
    void offer(const ReportMemory& memory, ReportMemoryOffer offer) {
        agent.send_with(offer, memory.descriptor());
        read();
    }
    void read() {
        client.connection().wait().until_ready(10'000);
        client.read_socket();
    }
    void lose_agent() {
        agent.hang_up();
        read();
        CHECK_FALSE(client.is_attached());
    }
    std::uint64_t begin(Report report = {}) { return client.begin_report(report); }
};

Report saved(std::string path) {
    return {.metrics_json = "{}", .checkpoint = StagedFiles{.path = std::move(path)}, .upload = Upload::async};
}

}  // namespace

TEST_CASE("a report without an answer is sent again with its number") {
    OneRank rank;
    CHECK(rank.connect({.next_index = 4}).next_index == 1);
    CHECK(rank.begin({.metrics_json = R"({"loss":1})"}) == 4);
    CHECK(rank.agent.receive<Report>().index == 4);
    rank.lose_agent();
    CHECK_FALSE(rank.client.is_released(4));
    CHECK(rank.connect({.next_index = 1}).next_index == 4);
    CHECK(rank.agent.receive<Report>() == Report{.index = 4, .metrics_json = R"({"loss":1})"});
    rank.agent.send(Reported{.index = 4});
    rank.read();
    CHECK(rank.client.is_released(4));
    CHECK(rank.begin() == 5);
}

TEST_CASE("a broadcast and a directory are requested again from the next agent") {
    OneRank rank;
    rank.connect();
    rank.client.begin_broadcast("seed");
    rank.client.request_directory();
    CHECK(rank.agent.receive<Broadcast>().index == 1);
    CHECK_FALSE(rank.agent.receive<Stage>().spare);
    rank.lose_agent();
    rank.connect();
    CHECK_FALSE(rank.agent.receive<Stage>().spare);
    CHECK(rank.agent.receive<Broadcast>() == Broadcast{.index = 1, .data = "seed"});
}

TEST_CASE("a process whose rank belongs to another one keeps no connection") {
    OneRank rank;
    rank.connect({.holder = 42});
    CHECK_FALSE(rank.client.place().is_own());
    CHECK_FALSE(rank.client.connection().is_open());
    CHECK_FALSE(rank.client.may_dial());
    rank.connect({.holder = 0, .next_index = 6});
    CHECK(rank.client.place().is_own());
    CHECK(rank.begin() == 6);
}

TEST_CASE("an older agent that names no holder leaves a reader without a place") {
    OneRank rank;
    rank.connect({.holder = 0}, Place::not_wanted);
    CHECK_FALSE(rank.client.place().is_own());
    CHECK_FALSE(rank.client.connection().is_open());
}

TEST_CASE("a report without files is posted into the offered memory") {
    OneRank rank;
    ReportMemory memory = std::move(ReportMemory::create(1)).value();
    memory.clear(0);
    rank.connect();
    rank.offer(memory, {.ring = 0, .alone = true});
    rank.agent.receive<ReportMemoryTaken>();
    CHECK(rank.begin() == 1);
    rank.agent.receive<ReportsPosted>();
    std::uint64_t taken = 0, posted = 0;
    memory.take(0, taken, [&](const ReportMemory::Posted& frame) { posted = frame.index; });
    CHECK(posted == 1);
    CHECK_FALSE(rank.client.is_released(1));
    memory.pass(1, false);
    CHECK(rank.client.is_released(1));
    rank.client.read_report_memory();
    CHECK(rank.client.reports().kept().empty());
}

TEST_CASE("a rank alone continues without an agent and sends its reports to the next") {
    OneRank rank;
    ReportMemory memory = std::move(ReportMemory::create(1)).value();
    memory.clear(0);
    rank.connect();
    rank.offer(memory, {.ring = 0, .alone = true});
    rank.lose_agent();
    for (std::uint64_t index : {1U, 2U}) {
        const Report report{.index = index};
        CHECK(rank.begin() == index);
        CHECK(rank.client.is_released(index));
        CHECK(rank.client.pass_report(report).freed.empty());
        rank.client.reports().end();
    }
    CHECK(rank.client.reports().kept().size() == 2);
    rank.client.dial(Place::wanted);  // greets, and does not wait
    CHECK(rank.client.connection().is_greeting());
    rank.agent.accept();
    CHECK(rank.agent.receive<Hello>().next_index == 1);
    rank.agent.send(Welcome{});
    rank.client.connection().wait_for_answer(10s);
    rank.client.dial(Place::wanted);
    CHECK(rank.client.is_attached());
    CHECK(rank.agent.receive<Report>().index == 1);
    CHECK(rank.agent.receive<Report>().index == 2);
}

TEST_CASE("without an agent a newer checkpoint frees the directory of the one before") {
    OneRank rank;
    ReportMemory memory = std::move(ReportMemory::create(1)).value();
    memory.clear(0);
    rank.connect();
    rank.offer(memory, {.ring = 0, .alone = true});
    rank.lose_agent();
    std::vector<std::string> freed;
    for (const char* path : {"/stage/1", "/stage/2"}) {
        Report report = saved(path);
        const std::uint64_t index = rank.client.begin_report(report);
        REQUIRE(rank.client.is_released(index));
        const AgentClient::Passed passed = rank.client.pass_report(report);
        CHECK(passed.has_files_of_all);
        freed.push_back(passed.freed);
        rank.client.reports().end();
    }
    CHECK(freed == std::vector<std::string>{"", "/stage/1"});
    CHECK(rank.client.checkpoints().awaited() == std::vector<std::uint64_t>{2});
}

TEST_CASE("spare directories are requested after the first report with files") {
    OneRank rank;
    ReportMemory memory = std::move(ReportMemory::create(1)).value();
    memory.clear(0);
    rank.connect();
    rank.offer(memory, {.ring = 0, .alone = true});
    rank.agent.receive<ReportMemoryTaken>();
    CHECK(rank.client.take_spare() == std::nullopt);
    Report report = saved("/stage/1");
    rank.client.begin_report(report);
    rank.client.pass_report(report);
    rank.client.prepare_next_files();
    CHECK(rank.agent.receive<Stage>().spare);
    CHECK(rank.agent.receive<Stage>().spare);
    rank.agent.send(Staged{.path = "/spare/1", .spare = true});
    rank.read();
    CHECK(rank.client.take_spare() == std::nullopt);  // The agent is connected.
    rank.lose_agent();
    CHECK(rank.client.take_spare() == "/spare/1");
}

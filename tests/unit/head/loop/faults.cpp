// Faults below the head: a disk without space. No effect happens that is not on disk.
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <set>

#include "base/json_text.hpp"
#include "storage/state/sqlite.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

// Limits the size of files of this process, so that writes fail as on a full disk.
class NoRoomToGrow {
  public:
    explicit NoRoomToGrow(rlim_t bytes) {
        before_ = std::signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &limit_);
        rlimit small = limit_;
        small.rlim_cur = bytes;
        setrlimit(RLIMIT_FSIZE, &small);
    }
    ~NoRoomToGrow() {
        setrlimit(RLIMIT_FSIZE, &limit_);
        std::signal(SIGXFSZ, before_);
    }
    NoRoomToGrow(const NoRoomToGrow&) = delete;
    NoRoomToGrow& operator=(const NoRoomToGrow&) = delete;

  private:
    rlimit limit_{};
    void (*before_)(int) = nullptr;
};

}  // namespace

TEST_CASE("a commit that fails ends the head with the reason, and nothing of it was performed") {
    const TemporaryFolder folder;
    std::string admin;
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        HandMadeAgent agent(join(head, "n1"), "n1");
        agent.register_node();
        REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes").body["items"].size() == 1; }));
        Status ended = Done{};
        {
            const NoRoomToGrow full(1'024);
            net::Client client(head.endpoint(head.admin));
            const auto answer =
                client.call({.method = "POST", .target = "/v1/runs", .body = json_text(json({{"job", job("lost")}}))});
            CHECK((!answer || answer->status >= 500));
            ended = head.outcome();
        }
        REQUIRE_FALSE(ended.ok());
        CHECK_FALSE(ended.error().message.empty());
        CHECK_FALSE(agent.heard_any<protocol::Prepare>());
    }
    HeadUnderTest again({.data_dir = folder.path});
    again.admin = admin;
    CHECK(again.call("GET", "/v1/runs?all=true").body["items"].empty());
    CHECK(again.call("GET", "/v1/nodes").body["items"].size() == 1);
}

TEST_CASE(
    "logs leave room for the state: below the reserve nodes keep them, and it is said once, and once when they come") {
    const TemporaryFolder folder;
    const auto free = std::make_shared<std::atomic<std::uint64_t>>(1'000);
    HeadUnderTest head({.data_dir = folder.path, .logs_reserve = 1'000, .free_bytes = [free](const std::string&) {
                            return free->load();
                        }});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("chatty", 2)}}).status == 201);
    const auto attempt = start_attempt(agent, 2);
    const auto events_that_say = [&](const std::string& words) {
        const std::string text = head.call("GET", "/v1/events?limit=1000").text;
        std::size_t count = 0;
        for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
        return count;
    };
    const auto say = [&](std::uint32_t rank) {
        agent.say(
            protocol::LogChunk{.attempt = attempt, .rank = rank, .stream = "out", .offset = 0, .bytes = "hello\n"});
    };
    free->store(999);
    for (int i = 0; i < 3; ++i) {
        say(0);
        const auto put_off = agent.expect<protocol::LogAck>();
        CHECK((put_off.later && put_off.offset == 0));
    }
    say(1);
    CHECK(agent.expect<protocol::LogAck>().later);
    CHECK(eventually([&] { return events_that_say("is nearly full") == 1; }));
    CHECK(head.call("GET", "/v1/runs/chatty/logs?rank=all").text.empty());

    free->store(1'000'000);
    std::set<std::uint32_t> asked_for;
    for (int i = 0; i < 2; ++i) {
        const auto ack = agent.expect<protocol::LogAck>();
        CHECK_FALSE(ack.later);
        asked_for.insert(ack.rank);
    }
    CHECK(asked_for == std::set<std::uint32_t>{0, 1});
    say(0);
    CHECK(agent.expect<protocol::LogAck>().offset == 6);
    CHECK(eventually([&] { return events_that_say("has room again") == 1; }));
    CHECK(events_that_say("is nearly full") == 1);
}

TEST_CASE("uploads stop at the reserve with `full`, before a byte of them is taken") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path, .storage_reserve = 1LL << 60});
    const net::Call upload{.method = "PUT", .target = "/v1/storage/run/file", .body = "x"};
    const Answer answer = HeadUnderTest::send(head.endpoint(head.admin), upload);
    CHECK(answer.status == 507);
    CHECK(answer.body["code"] == "full");
    CHECK(answer.body["message"].get<std::string>().find("reserve") != std::string::npos);
}

TEST_CASE(
    "what SQLite cannot read is a 5xx of that request alone; orders, agents and other requests need no such read") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint node = join(head, "n1");
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("mine")}}).status == 201);
    const std::string path = folder.path + "/state.db";
    auto other = state::Database::open(path, state::Database::Mode::existing);
    REQUIRE(other.ok());
    other->leave_wal_on_close();
    for (const char* table : {"audit", "metrics", "metric_chunks", "settings", "events"})
        REQUIRE(other->run(std::string("ALTER TABLE ") + table + " RENAME TO hidden_" + table).ok());

    for (const char* target : {"/v1/audit", "/v1/runs/mine/metrics", "/v1/runs/mine/explain", "/v1/events"}) {
        INFO(target);
        const Answer answer = head.call("GET", target);
        CHECK(answer.status == 500);
        CHECK(answer.body["code"] == "internal");
        CHECK(answer.body["message"].get<std::string>().find("no such table") != std::string::npos);
    }
    CHECK(head.call("GET", "/v1/events?follow=true").status == 200);  // ends at once
    HandMadeAgent agent(node, "n1");                                  // it is welcomed
    CHECK(head.call("GET", "/v1/runs").body["items"].size() == 1);
    for (const char* table : {"audit", "metrics", "metric_chunks", "settings", "events"})
        REQUIRE(other->run(std::string("ALTER TABLE hidden_") + table + " RENAME TO " + table).ok());
    agent.register_node();
    CHECK(eventually([&] { return agent.heard_any<protocol::Prepare>(); }));
    CHECK(head.call("GET", "/v1/audit").status == 200);
}

// The calls of a session with its heartbeat thread, beside calls of other threads.
#include "runtime/worker/session.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "runtime/worker/last_error.hpp"
#include "runtime/worker/rtrain_worker.h"
#include "tests/unit/catch.hpp"
#include "tests/unit/fake_agent.hpp"

using namespace rtrain::worker;
using namespace std::chrono_literals;

namespace {

Settings settings_for(const FakeAgent& agent) {
    return {.socket = agent.path(), .key = "secret", .attempt = "r1-a1", .rank = 0, .agent_wait = 10s};
}

// An agent that answers each message on a thread of its own until the rank releases its place.
class AnsweringAgent {
  public:
    AnsweringAgent() : thread_([this] { run(); }) {}
    ~AnsweringAgent() { thread_.join(); }
    FakeAgent agent;
    std::atomic<int> reports{0}, heartbeats{0};

  private:
    void run() {
        agent.accept();
        agent.receive<Hello>();
        agent.send(Welcome{.context_json = R"({"world_size":1})"});
        for (;;) {
            FromWorker message = agent.receive();
            if (std::holds_alternative<Release>(message)) return;
            if (const auto* report = std::get_if<Report>(&message)) {
                ++reports;
                agent.send(Reported{.index = report->index});
            } else if (auto* broadcast = std::get_if<Broadcast>(&message)) {
                agent.send(std::move(*broadcast));
            } else if (std::holds_alternative<Stage>(message)) {
                agent.send(Staged{.path = "", .error = "the disk is full", .reason = "storage_full"});
            } else if (std::holds_alternative<Fail>(message)) {
                agent.send(Wanted{.what = Wish::stop});
            } else if (std::holds_alternative<Heartbeat>(message)) {
                ++heartbeats;
            }
        }
    }
    std::thread thread_;
};

// Waits until the condition holds, 10 s at most.
template <class Condition>
bool comes_true(Condition condition) {
    const auto deadline = Clock::now() + 10s;
    while (!condition() && Clock::now() < deadline) std::this_thread::yield();
    return condition();
}

std::unique_ptr<Session> opened(const FakeAgent& agent) {
    std::unique_ptr<Session> session;
    REQUIRE(Session::open(settings_for(agent), Place::wanted, session) == RTW_OK);
    return session;
}

}  // namespace

TEST_CASE("calls of several threads are answered while heartbeats are sent") {
    AnsweringAgent answering;
    auto session = opened(answering.agent);
    CHECK(session->context_json() == R"({"world_size":1})");
    std::atomic<int> faults{0};
    std::thread other_thread([&] {
        for (int i = 0; i < 50; ++i) {
            std::string bytes;
            faults += session->broadcast(std::to_string(i), bytes) != RTW_OK || bytes != std::to_string(i);
            faults += session->wanted();
            session->waits().add_data(1ms);
        }
    });
    for (int i = 0; i < 50; ++i) {
        faults += session->report({.metrics_json = "{}"}) != RTW_OK;
        faults += session->checkpoint().has_value();
    }
    other_thread.join();
    CHECK(faults == 0);
    CHECK(answering.reports == 50);
    CHECK(comes_true([&] { return answering.heartbeats > 0; }));
    CHECK(session->next_report() == 51);
    Session::close(std::move(session));
}

TEST_CASE("a full disk fails the staging and passes the report") {
    AnsweringAgent answering;
    auto session = opened(answering.agent);
    std::string path;
    CHECK(session->stage(path) == RTW_STORAGE);
    CHECK(std::string(last_error()) == "the disk is full; see `rtrain events`");
    rtrain::Folder program;
    CHECK(session->report({.metrics_json = "{}", .directory = program.path}) == RTW_OK);
    CHECK(session->report({.metrics_json = "{}", .directory = program.path, .upload = Upload::sync}) == RTW_STORAGE);
    CHECK(answering.reports == 2);
    Session::close(std::move(session));
}

TEST_CASE("the agent's stop is returned by wanted") {
    AnsweringAgent answering;
    auto session = opened(answering.agent);
    CHECK(session->wanted_json().empty());
    CHECK(session->fail("a cause") == RTW_OK);
    CHECK(comes_true([&] { return session->wanted() == 2; }));
    CHECK(session->wanted_json() == R"({"what":"stop"})");
    Session::close(std::move(session));
}

TEST_CASE("a forked child reads the context and may not report") {
    AnsweringAgent answering;
    auto session = opened(answering.agent);
    const pid_t child = ::fork();
    if (child == 0) {
        const bool reads = session->context_json() == R"({"world_size":1})" && !session->checkpoint();
        const bool refused = session->report({}) == RTW_INVALID && session->wanted() == 0;
        Session::close(std::move(session));
        ::_exit(reads && refused ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(session->report({.metrics_json = "{}"}) == RTW_OK);
    Session::close(std::move(session));
}

TEST_CASE("a missing agent is an error after the agent's wait") {
    const Settings settings{.socket = "/nonexistent/agent.sock", .agent_wait = 1ms};
    std::unique_ptr<Session> session;
    CHECK(Session::open(settings, Place::wanted, session) == RTW_AGENT_GONE);
    CHECK(session == nullptr);
    CHECK(std::string(last_error()).find("the agent at /nonexistent/agent.sock has not answered for 0 s") == 0);
}

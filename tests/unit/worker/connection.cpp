// The connection to an agent: a hello, its answer, and the time without a connection.
#include "runtime/worker/connection.hpp"

#include "tests/unit/catch.hpp"
#include "tests/unit/fake_agent.hpp"

using namespace rtrain::worker;
using namespace std::chrono_literals;

namespace {

const Hello hello{.attempt = "r1-a1", .rank = 0, .pid = 1, .key = "secret"};

// Reads the answer that the agent has sent.
bool answer_of(Connection& connection, std::vector<FromAgent>& messages) {
    connection.wait_for_answer(10s);
    return connection.read_answer(messages);
}

}  // namespace

TEST_CASE("a welcome makes the greeting the present connection") {
    FakeAgent agent;
    Connection connection;
    connection.lost();
    REQUIRE(connection.greet(agent.path(), hello).empty());
    CHECK(connection.is_greeting());
    CHECK_FALSE(connection.is_open());
    agent.accept();
    CHECK(std::get<Hello>(agent.receive()) == hello);
    agent.send(Welcome{.holder = 0});
    std::vector<FromAgent> messages;
    CHECK(answer_of(connection, messages));
    CHECK(messages == std::vector<FromAgent>{Welcome{.holder = 0}});
    connection.answered();
    connection.welcomed();
    CHECK(connection.is_open());
    CHECK_FALSE(connection.is_greeting());
    CHECK_FALSE(connection.lost_at());
}

TEST_CASE("a refusal of the first agent is final") {
    FakeAgent agent;
    Connection connection;
    connection.lost();
    REQUIRE(connection.greet(agent.path(), hello).empty());
    agent.accept();
    agent.send(Refuse{.message = "wrong key"});
    std::vector<FromAgent> messages;
    CHECK_FALSE(answer_of(connection, messages));
    connection.on_message(std::get<Refuse>(messages.at(0)));
    CHECK(connection.is_in_vain());
    connection.give_up();
    CHECK(connection.refused() == "wrong key");
}

TEST_CASE("a refusal soon after a lost connection is not final") {
    Connection connection;
    connection.welcomed();
    connection.lost();
    connection.on_message({.message = "no such attempt"});
    CHECK(connection.give_up() == "it refused: no such attempt");
    CHECK(connection.refused().empty());
}

TEST_CASE("the time of the first loss is kept until the next welcome") {
    Connection connection;
    connection.count_from(Clock::time_point{1s});
    connection.lost();
    CHECK(connection.lost_at() == Clock::time_point{1s});
    connection.welcomed();
    connection.lost();
    CHECK(connection.lost_at() > Clock::time_point{1s});
}

TEST_CASE("a missing agent is not dialled again within 100 ms") {
    Connection connection;
    CHECK(connection.is_time_to_dial());
    CHECK(connection.greet("/nonexistent/agent.sock", hello).find("No such file") == 0);
    CHECK_FALSE(connection.is_time_to_dial());
    CHECK(connection.is_in_vain());
}

TEST_CASE("the end of the stream is the loss of the connection") {
    FakeAgent agent;
    Connection connection;
    REQUIRE(connection.greet(agent.path(), hello).empty());
    agent.accept();
    agent.send(Welcome{});
    std::vector<FromAgent> messages;
    REQUIRE(answer_of(connection, messages));
    connection.welcomed();
    agent.hang_up();
    connection.wait().until_ready(10'000);
    connection.read([](const FromAgent&) {});
    CHECK_FALSE(connection.is_open());
    CHECK(connection.lost_at());
}

// Logs from agents to the disk: the pieces that are acknowledged, and those that are put off.
#include "daemon/head/logs/log_intake.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>

#include "daemon/head/base/data_files.hpp"
#include "tests/unit/head_core.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

constexpr std::size_t half_of_the_bound = 32 << 20;

struct Sent {
    std::string node;
    protocol::LogAck ack;
    bool operator==(const Sent&) const = default;
};
using SentAcks = std::vector<Sent>;

struct IntakeStory : test::HeadCore {
    Feeds feeds{loop};
    SentAcks sent;
    LogIntake logs{
        {loop, events, feeds, options, bytes, [this](const std::string& node, const protocol::FromHead& message) {
             sent.push_back({node, std::get<protocol::LogAck>(message)});
         }}};

    explicit IntakeStory(HeadOptions given = {.data_dir = "", .logs_reserve = 0}) : HeadCore(std::move(given)) {
        events.connect(no_steps());
    }
    bool run_until_sent(std::size_t count) {
        return test::run_until(loop, [&] { return sent.size() >= count; });
    }
    std::string content(std::uint32_t rank) const {
        for (const LogFile& file : log_files(logs.directory(), RunId{7}))
            if (file.name.rank == rank) return read_file(file.path).value();
        return "";
    }
};

LogName log_name(std::uint32_t rank) { return {.run = RunId{7}, .attempt = 2, .rank = rank, .stream = "out"}; }
LogStore::Piece piece(std::uint32_t rank, std::uint64_t offset, std::string bytes) {
    return {.name = log_name(rank), .offset = offset, .bytes = std::move(bytes), .last = false, .wall_ms = 1'000};
}
// The agent's identification of the attempt, whose number was not settled yet.
const LogIntake::Source from_n1{.node = "n1", .attempt = {.run = 7, .incarnation = 3, .number = 0}};

Sent ack(std::uint32_t rank, std::uint64_t offset, bool later = false) {
    return {from_n1.node,
            {.attempt = from_n1.attempt, .rank = rank, .stream = "out", .offset = offset, .later = later}};
}

}  // namespace

TEST_CASE("a piece is acknowledged to its sender, under the sender's name for the attempt, once it is in its file") {
    IntakeStory story;
    story.logs.take(piece(0, 0, "a line\n"), from_n1);
    CHECK(story.sent.empty());
    REQUIRE(story.run_until_sent(1));
    CHECK(story.sent == SentAcks{ack(0, 7)});
    CHECK(story.content(0) == "a line\n");
}

TEST_CASE("pieces that come together are written in their order, a repeat once, and acknowledged up to the last byte") {
    IntakeStory story;
    story.logs.take(piece(0, 0, "one "), from_n1);
    story.logs.take(piece(0, 4, "two"), from_n1);
    story.logs.take(piece(0, 0, "one "), from_n1);
    story.logs.take(piece(0, 4, "two"), from_n1);
    REQUIRE(test::run_until(story.loop, [&] { return !story.sent.empty() && story.sent.back() == ack(0, 7); }));
    CHECK(story.content(0) == "one two");
}

TEST_CASE("what nobody will ask for is acknowledged and not written") {
    IntakeStory story;
    story.logs.let_go(log_name(0), from_n1, 900);
    REQUIRE(story.run_until_sent(1));
    CHECK(story.sent == SentAcks{ack(0, 900)});
    CHECK(log_files(story.logs.directory(), RunId{7}).empty());
}

TEST_CASE("a stream that is none is neither written nor acknowledged, and the others go on") {
    IntakeStory story;
    LogStore::Piece odd = piece(0, 0, "x");
    odd.name.stream = "../../ca.key";
    story.logs.take(std::move(odd), from_n1);
    story.logs.take(piece(1, 0, "y"), from_n1);
    REQUIRE(story.run_until_sent(1));
    CHECK(story.sent == SentAcks{ack(1, 1)});
    CHECK(log_files(story.logs.directory(), RunId{7}).size() == 1);
}

TEST_CASE("beyond 64 MiB that wait for the disk nothing is held: it stays on its node, and is asked for again") {
    std::promise<void> disk_goes_on;
    const std::shared_future<void> disk = disk_goes_on.get_future().share();
    IntakeStory story({.data_dir = "", .logs_reserve = 0, .free_bytes = [disk](const std::string&) {
                           disk.wait();  // on the log thread
                           return std::uint64_t{1} << 40;
                       }});
    story.logs.take(piece(0, 0, std::string(half_of_the_bound, 'a')), from_n1);
    story.logs.take(piece(1, 0, std::string(half_of_the_bound, 'b')), from_n1);
    CHECK(story.sent.empty());
    story.logs.take(piece(2, 0, "c"), from_n1);
    CHECK(story.sent == SentAcks{ack(2, 0, true)});
    disk_goes_on.set_value();
    REQUIRE(test::run_until(story.loop, [&] { return story.sent.back() == ack(2, 0); }));  // it was requested
    CHECK(std::count(story.sent.begin(), story.sent.end(), ack(0, half_of_the_bound)) == 1);
    CHECK(std::count(story.sent.begin(), story.sent.end(), ack(1, half_of_the_bound)) == 1);
    CHECK(story.content(2).empty());
    story.logs.take(piece(2, 0, "c"), from_n1);
    REQUIRE(test::run_until(story.loop, [&] { return story.sent.back() == ack(2, 1); }));
    CHECK(story.content(2) == "c");
    story.events.settle();
    CHECK(story.notices().empty());  // the disk is slow, not full
}

TEST_CASE(
    "below the reserve logs stay on their nodes; when there is room each sender is asked; people are told twice") {
    const auto free = std::make_shared<std::atomic<std::uint64_t>>(999);
    IntakeStory story(
        {.data_dir = "", .logs_reserve = 1'000, .free_bytes = [free](const std::string&) { return free->load(); }});
    story.logs.take(piece(0, 0, "zero"), from_n1);
    story.logs.take(piece(1, 0, "one"), from_n1);
    REQUIRE(story.run_until_sent(2));
    CHECK(story.sent == SentAcks{ack(0, 0, true), ack(1, 0, true)});
    CHECK(log_files(story.logs.directory(), RunId{7}).empty());
    *free = 1'250;
    REQUIRE(story.run_until_sent(4));
    CHECK(SentAcks(story.sent.begin() + 2, story.sent.end()) == SentAcks{ack(0, 0), ack(1, 0)});
    story.logs.take(piece(0, 0, "zero"), from_n1);
    REQUIRE(story.run_until_sent(5));
    CHECK(story.sent.back() == ack(0, 4));
    story.events.settle();
    const auto texts = story.notices();
    REQUIRE(texts.size() == 2);
    CHECK(texts[0].find("nearly full") != std::string::npos);
    CHECK(texts[1].find("has room again") != std::string::npos);
}

TEST_CASE("what cannot be synced is not acknowledged; it is tried again, up to what came meanwhile") {
    IntakeStory story;
    std::filesystem::remove(story.logs.directory());
    bool tried_twice = false;
    story.loop.after(500, [&] { tried_twice = true; });
    story.logs.let_go(log_name(0), from_n1, 5);
    story.logs.let_go(log_name(1), from_n1, 6);
    REQUIRE(test::run_until(story.loop, [&] { return tried_twice; }));
    CHECK(story.sent.empty());
    story.logs.let_go(log_name(0), from_n1, 9);
    std::filesystem::create_directory(story.logs.directory());
    REQUIRE(story.run_until_sent(2));
    CHECK(story.sent == SentAcks{ack(0, 9), ack(1, 6)});
}

TEST_CASE("the logs of a removed run go behind what was taken of it before") {
    IntakeStory story;
    story.logs.take(piece(0, 0, "a line\n"), from_n1);
    story.logs.forget(RunId{7});
    REQUIRE(story.run_until_sent(1));
    CHECK(test::run_until(story.loop, [&] { return log_files(story.logs.directory(), RunId{7}).empty(); }));
}

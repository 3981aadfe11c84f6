// Decisions become durable in order, in transactions of bounded size, however many come at once.
#include <algorithm>

#include "daemon/head/loop/commit_queue.hpp"
#include "tests/unit/head_agent.hpp"
#include "tests/unit/head_core.hpp"

using namespace rtrain;
using namespace rtrain::test;
using head::CommitQueue;
using head::Pending;

namespace {

// Returns decisions with so many rows; `at` identifies them.
Pending::Decided decided_of(std::size_t rows, std::int64_t at) {
    Pending::Decided one;
    one.decisions.now = Time{at};
    one.decisions.entries.resize(rows);
    return one;
}

void nothing(Pending& batch) { ++batch.rows; }

std::uint64_t commits(const HeadUnderTest& head) {
    const std::string text = head.call("GET", "/metrics").text, name = "\nrtrain_log_commit_duration_seconds_count ";
    return std::stoull(text.substr(text.find(name) + name.size()));
}

}  // namespace

TEST_CASE(
    "a batch takes decisions until it is full; what is decided behind it goes into the next, and all of it in order") {
    CommitQueue queue;
    CHECK_FALSE(queue.wanted());
    CHECK(queue.begin(nothing) == nullptr);
    std::vector<std::int64_t> begun, durable;
    std::size_t most = 0, batches = 0;
    const auto write = [&] {
        if (const Pending* next = queue.begin(nothing)) {
            most = std::max(most, next->batch.entries.size());
            for (const auto& one : next->decided) begun.push_back(one.decisions.now.ms);
        }
    };
    for (std::int64_t at = 1; at <= 100; ++at) {  // the first batch is at the writer all that time
        queue.newest().add(decided_of(CommitQueue::rows_at_most / 10, at));
        if (queue.full(0)) queue.close(nothing);
        write();
    }
    CHECK(begun == std::vector<std::int64_t>{1});
    while (queue.under_way()) {
        ++batches;
        const auto done = queue.end();
        for (const auto& one : done->decided) durable.push_back(one.decisions.now.ms);
        write();
    }
    CHECK_FALSE(queue.wanted());
    CHECK(most == CommitQueue::rows_at_most);
    CHECK(batches == 11);
    REQUIRE(durable.size() == 100);
    CHECK(std::is_sorted(durable.begin(), durable.end()));
}

TEST_CASE("who asks waits for the batch with the newest decision, wherever it is") {
    CommitQueue queue;
    CHECK(queue.last_decided() == nullptr);
    queue.newest().add(decided_of(1, 1));
    CHECK(queue.last_decided() == &queue.newest());
    const Pending* first = queue.begin(nothing);
    CHECK(queue.last_decided() == first);
    queue.newest().add(decided_of(1, 2));
    CHECK(queue.last_decided() == &queue.newest());
    queue.close(nothing);
    CHECK(queue.last_decided()->decided.front().decisions.now == Time{2});
    CHECK(queue.begin(nothing) == nullptr);  // one at a time
    const auto done = queue.end();
    CHECK(done->decided.front().decisions.now == Time{1});
    CHECK(queue.last_decided() == queue.begin(nothing));
    queue.end();
    CHECK(queue.last_decided() == nullptr);
}

TEST_CASE("what elsewhere waits to be written fills a batch too, and a batch that is closed has it") {
    CommitQueue queue;
    CHECK_FALSE(queue.full(CommitQueue::rows_at_most - 1));
    queue.newest().add(state::Notice{.wall_ms = 1, .text = "one", .about_run = {}, .about_node = {}});
    CHECK(queue.full(CommitQueue::rows_at_most - 1));
    queue.close([](Pending& batch) { batch.news["n1"] = {.number = 7, .installation = 0}; });
    CHECK(queue.newest().news.empty());
    CHECK(queue.newest().rows == 0);
    CHECK(queue.begin(nothing)->news.at("n1").number == 7);
}

TEST_CASE("a flood of news while the disk is busy becomes several transactions, nothing lost, nothing twice") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes").body["items"].size() == 1; }));
    constexpr std::size_t messages = 6, each = CommitQueue::rows_at_most / 2;
    const std::uint64_t before = commits(head);
    {
        const HeldJournal held(folder.path);
        for (std::size_t message = 0; message < messages; ++message) {
            protocol::NewsBatch batch;
            for (std::size_t i = 0; i < each; ++i)
                batch.items.push_back(
                    {++agent.seq, protocol::Notice{.attempt = {}, .text = "notice " + std::to_string(agent.seq)}});
            agent.say(batch);
        }
        CHECK_FALSE(agent.heard_any<protocol::NewsAck>());
    }
    std::uint64_t acknowledged = 0;
    while (acknowledged < agent.seq) acknowledged = agent.expect<protocol::NewsAck>().seq;
    CHECK(acknowledged == agent.seq);
    CHECK(commits(head) - before >= messages / 2);
    std::vector<std::string> notices;
    for (std::uint64_t after = 0;;) {
        const json items = head.call("GET", "/v1/events?limit=1000&after=" + std::to_string(after)).body["items"];
        for (const json& item : items)
            if (item["text"].get<std::string>().starts_with("notice ")) notices.push_back(item["text"]);
        if (items.empty()) break;
        after = items.back()["id"].get<std::uint64_t>();
    }
    REQUIRE(notices.size() == messages * each);
    for (std::size_t i = 0; i < notices.size(); ++i) REQUIRE(notices[i] == "notice " + std::to_string(i + 1));
}

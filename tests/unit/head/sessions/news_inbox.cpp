// News of agents: each counts once, and is acknowledged once it is on disk.
#include "daemon/head/sessions/news_inbox.hpp"

#include "daemon/head/events/news.hpp"
#include "tests/unit/head_core.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

struct Ack {
    std::string node;
    std::uint64_t number = 0;
    bool operator==(const Ack&) const = default;
};
using Acks = std::vector<Ack>;
using Texts = std::vector<std::string>;

// An inbox connected to the event loop as in parts.cpp. No acknowledgement is sent before the news is durable.
struct InboxStory : test::HeadCore {
    NewsInbox inbox{events, view, reports, metrics};
    Acks acks;
    int batches = 0;  // number of closed batches: being written, or durable

    InboxStory() {
        EventLoop::Steps steps = no_steps();
        steps.rows_elsewhere = [this] { return reports.waiting(); };
        steps.collect = [this](Pending& batch) {
            ++batches;
            batch.batch.metrics = reports.to_save();
            inbox.add_numbers(batch);
        };
        steps.saved = [this](const Pending& batch) { inbox.numbers_saved(batch); };
        steps.acknowledge = [this] {
            inbox.acknowledge([this](const std::string& node, std::uint64_t number) {
                CHECK(number <= on_disk(node));
                acks.push_back({node, number});
            });
        };
        events.connect(std::move(steps));
    }
    std::uint64_t on_disk(const std::string& node) const {
        return std::stoull(journal->setting("news_seen/" + node).value_or("0"));
    }
    // Takes a notice, which is about no run, and which any node may send.
    void notice(const std::string& node, std::uint64_t number, const std::string& text) {
        CHECK_FALSE(inbox.take(node, {number, protocol::Notice{.attempt = {}, .text = text}}));
    }
    // Nodes n1 and n2 with a processor each, and a run whose only worker is placed on n1.
    protocol::AttemptRef placed() {
        happens(stories::node("n1", 1));
        const RunId run = happens(stories::submission({.name = "job"})).created.value();
        happens(stories::node("n2", 1));
        return reference(view.cluster.attempts.at({run, 1}));
    }
    const Attempt& attempt(const protocol::AttemptRef& ref) const { return *find_attempt(view.cluster, ref); }
};

protocol::Prepared claimed(const protocol::AttemptRef& attempt) {
    return {.attempt = attempt, .claimed = true, .master_address = "10.0.0.1", .master_port = 20'000};
}

}  // namespace

TEST_CASE("news count once and in their order; a number that came before counts no more, whatever it carries") {
    InboxStory story;
    story.notice("n1", 1, "one");
    story.notice("n1", 2, "two");
    story.notice("n1", 1, "one again");
    story.notice("n1", 2, "two again");
    story.events.settle();
    story.notice("n1", 2, "two after the commit");
    story.notice("n1", 3, "three");
    story.events.settle();
    CHECK(story.notices() == Texts{"one", "two", "three"});
    CHECK(story.on_disk("n1") == 3);
}

TEST_CASE("each node has numbers of its own") {
    InboxStory story;
    story.notice("n1", 7, "of n1");
    story.notice("n2", 1, "of n2");
    story.events.settle();
    CHECK(story.notices() == Texts{"of n1", "of n2"});
    CHECK(story.inbox.durable("n1") == 7);
    CHECK(story.inbox.durable("n2") == 1);
    CHECK(story.inbox.durable("n3") == 0);
}

TEST_CASE("the highest number is acknowledged, once for each time that the node sent something") {
    InboxStory story;
    for (std::uint64_t number = 1; number <= 3; ++number) story.notice("n1", number, "notice");
    CHECK(story.acks.empty());
    REQUIRE(test::run_until(story.loop, [&] { return !story.acks.empty(); }));
    CHECK(story.acks == Acks{{"n1", 3}});
    story.notice("n1", 3, "a repeat: the acknowledgement was lost");
    REQUIRE(test::run_until(story.loop, [&] { return story.acks.size() > 1; }));
    CHECK(story.acks == Acks{{"n1", 3}, {"n1", 3}});
}

TEST_CASE("while the disk is busy nothing is acknowledged; what came meanwhile is, when it is on disk itself") {
    InboxStory story;
    {
        const test::HeldJournal held(story.folder.path);
        story.notice("n1", 1, "one");
        REQUIRE(test::run_until(story.loop, [&] { return story.batches == 1; }));
        story.notice("n1", 2, "two");
        CHECK(story.acks.empty());
        CHECK(story.inbox.durable("n1") == 0);
        CHECK(story.on_disk("n1") == 0);
    }
    REQUIRE(test::run_until(story.loop, [&] { return !story.acks.empty() && story.acks.back().number == 2; }));
    CHECK(story.inbox.durable("n1") == 2);
    CHECK(story.notices() == Texts{"one", "two"});
}

TEST_CASE("a head that starts again knows the numbers on disk, and drops what an agent repeats") {
    InboxStory story;
    story.notice("n1", 1, "one");
    story.notice("n1", 2, "two");
    story.events.settle();
    NewsInbox restarted(story.events, story.view, story.reports, story.metrics);
    restarted.recall(*story.journal);
    CHECK(restarted.durable("n1") == 2);
    for (std::uint64_t number : {2u, 3u})
        CHECK_FALSE(restarted.take("n1", {number, protocol::Notice{.attempt = {}, .text = std::to_string(number)}}));
    story.events.settle();
    CHECK(story.notices() == Texts{"one", "two", "3"});
}

TEST_CASE("an agent that goes on after its last number keeps its numbers; one that begins anew is another one") {
    InboxStory story;
    story.notice("n1", 5, "five");
    story.events.settle();
    story.inbox.begin("n1", 6);
    CHECK(story.inbox.durable("n1") == 5);
    story.notice("n1", 5, "five again");
    story.inbox.begin("n1", 1);
    CHECK(story.inbox.durable("n1") == 0);
    story.notice("n1", 1, "the first of the new one");
    story.events.settle();
    CHECK(story.notices() == Texts{"five", "the first of the new one"});
    CHECK(story.on_disk("n1") == 1);
}

TEST_CASE("a number of the installation before, saved late, is not taken for one of the new installation") {
    InboxStory story;
    story.notice("n1", 5, "five");
    Pending late;
    story.inbox.add_numbers(late);
    CHECK(late.news.at("n1").number == 5);
    story.inbox.begin("n1", 1);
    story.inbox.numbers_saved(late);
    CHECK(story.inbox.durable("n1") == 0);
}

TEST_CASE("what a node may not tell changes nothing, says why, and is acknowledged all the same") {
    InboxStory story;
    const auto attempt = story.placed();
    const auto why = story.inbox.take("n2", {1, claimed(attempt)});
    REQUIRE(why);
    CHECK(why->find("rank 0 is on n1") != std::string::npos);
    REQUIRE(test::run_until(story.loop, [&] { return !story.acks.empty(); }));
    CHECK(story.acks == Acks{{"n2", 1}});
    CHECK(story.attempt(attempt).state == AttemptState::placed);

    CHECK_FALSE(story.inbox.take("n1", {1, claimed(attempt)}));
    story.events.settle();
    CHECK(story.attempt(attempt).state == AttemptState::starting);
}

TEST_CASE("news of an attempt that the head does not know are dropped and acknowledged, and nobody is blamed") {
    InboxStory story;
    const auto attempt = story.placed();
    const protocol::AttemptRef unknown{attempt.run, attempt.incarnation + 100, 9};
    CHECK_FALSE(story.inbox.take("n2", {1, claimed(unknown)}));
    REQUIRE(test::run_until(story.loop, [&] { return !story.acks.empty(); }));
    CHECK(story.acks == Acks{{"n2", 1}});
    CHECK(story.attempt(attempt).state == AttemptState::placed);
}

TEST_CASE("a report goes to the metrics in the transaction of its number, and is the run's first one once") {
    InboxStory story;
    const auto attempt = story.placed();
    CHECK_FALSE(story.inbox.take("n1", {1, claimed(attempt)}));
    const protocol::Reported report{
        .attempt = attempt, .index = 1, .wall_ms = 9, .metrics_json = {{0, R"({"loss":1})"}}};
    for (std::uint64_t number : {2u, 2u, 3u}) CHECK_FALSE(story.inbox.take("n1", {number, report}));
    CHECK(story.on_disk("n1") == 0);
    story.events.settle();
    CHECK(story.on_disk("n1") == 3);
    const auto rows = story.journal->metrics(RunId{attempt.run}, 0, {}).rows;
    REQUIRE(rows.size() == 1);  // the journal drops a second one with the same index
    CHECK(rows[0].ranks_json == R"({"0":{"loss":1}})");
    CHECK(story.attempt(attempt).state == AttemptState::running);
}

// The event loop: the order of its steps, and the tasks that wait for the disk.
#include "daemon/head/loop/event_loop.hpp"

#include <algorithm>

#include "daemon/head/loop/auditing.hpp"
#include "tests/unit/head_fixture.hpp"

using namespace rtrain;
using namespace rtrain::head;
using Steps = std::vector<std::string>;

namespace {

// An event loop that records its steps.
struct LoopStory {
    test::TemporaryFolder folder;
    std::unique_ptr<state::SqliteJournal> journal = state::SqliteJournal::open(folder.path).value();
    net::Loop loop;
    metrics::Metrics metrics{"test"};
    Clock clock{Time{0}};
    EventLoop events{loop, *journal, clock, metrics};
    Steps seen;

    LoopStory() {
        events.connect({.decided = [this](const Decisions&) { seen.push_back("decided"); },
                        .orders = [this](const std::vector<Effect>&) -> std::vector<EventLoop::Task> {
                            seen.push_back("orders made");
                            return {[this] { seen.push_back("order sent"); }};
                        },
                        .rows_elsewhere = [] { return std::size_t{0}; },
                        .collect = [this](Pending&) { seen.push_back("collected"); },
                        .saved =
                            [this](const Pending&) {
                                CHECK(journal->last_event().value > 0);
                                seen.push_back("saved");
                            },
                        .performed = [this](const Decisions&) { seen.push_back("performed"); },
                        .acknowledge = [this] { seen.push_back("acknowledged"); }});
    }
    void start() {
        events.take(HeadStarted{.wall_ms = 1, .quarantine = {}}, [this](const Decision&) {
            seen.push_back("answered");
            loop.stop();
        });
    }
};

}  // namespace

TEST_CASE("an event is decided, saved, performed and answered, in this order") {
    LoopStory story;
    story.start();
    CHECK(story.seen.empty());
    story.loop.run();
    CHECK(story.seen == Steps{"decided", "orders made", "collected", "saved", "order sent", "performed", "answered"});
}

TEST_CASE("what is told of a decision waits until it is on disk") {
    LoopStory story;
    story.start();
    story.loop.next([&] {
        CHECK_FALSE(story.events.all_durable());
        story.events.once_durable([&] { story.seen.push_back("told"); });
        CHECK(std::find(story.seen.begin(), story.seen.end(), "told") == story.seen.end());
    });
    story.loop.run();
    story.events.settle();
    const auto saved = std::find(story.seen.begin(), story.seen.end(), "saved");
    CHECK(std::find(saved, story.seen.end(), "told") != story.seen.end());
    story.events.once_durable([&] { story.seen.push_back("told at once"); });
    CHECK(story.seen.back() == "told at once");
}

TEST_CASE("a question about what came without an event is answered once that is on disk, and does not hold the loop") {
    LoopStory story;
    std::optional<std::string> value;
    story.events.take(HeadStarted{.wall_ms = 1, .quarantine = {}});
    story.events.save({.tokens = {}, .settings = {{"key", "value"}}, .done = {}});
    bool turned = false;
    story.events.once_written([&] {
        value = story.journal->setting("key");
        story.loop.stop();
    });
    story.loop.next([&] { turned = !value; });
    CHECK_FALSE(value);
    story.loop.run();
    CHECK(value == "value");
    CHECK(turned);  // other tasks ran before
}

TEST_CASE("the audit row of a request goes with the first event that it takes") {
    LoopStory story;
    const auto row = std::make_shared<std::optional<state::AuditRow>>(state::AuditRow{.wall_ms = 1, .action = "test"});
    {
        const Auditing scope(story.events, row);
        story.start();
        CHECK_FALSE(row->has_value());
    }
    story.loop.run();
    const auto rows = story.journal->audit(0, {}).rows;
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].action == "test");
}

TEST_CASE("what is saved beside the records is durable before it is answered") {
    LoopStory story;
    std::optional<std::string> value;
    story.events.save({.tokens = {}, .settings = {{"key", "value"}}, .done = [&] {
                           value = story.journal->setting("key");
                           story.loop.stop();
                       }});
    story.events.take(HeadStarted{.wall_ms = 1, .quarantine = {}});
    story.loop.run();
    CHECK(value == "value");
}

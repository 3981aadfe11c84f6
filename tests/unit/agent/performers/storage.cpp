// Each performer for storage alone: with a loop, this node, the live attempts, and a run's directory.
#include <filesystem>
#include <fstream>
#include <functional>

#include "daemon/agent/loop/agent_loop.hpp"
#include "daemon/agent/performers/storage/metrics_journals.hpp"
#include "daemon/agent/performers/storage/pending_deliveries.hpp"
#include "daemon/agent/performers/storage/preparations.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

namespace fs = std::filesystem;

// Attempt 1 of run digits is live on n1.
struct StorageStory {
    Folder folder;
    std::string runs = folder.path + "/runs";
    ThisNode node = this_node(folder.path + "/node");
    AgentLoop loop;
    LiveAttempts attempts;
    LogShipper logs{loop.net(), node.files, [](const protocol::LogChunk&) { return false; },
                    [](std::uint64_t) { return std::uint64_t{1} << 30; }};
    std::shared_ptr<storage::Store> store;

    StorageStory() {
        REQUIRE(make_directory(runs, 0755));
        store = storage::open_file_store(runs).value();
        AttemptContext context{.prepare = prepare_order({}), .store = store};
        context.prepare.storage_path = runs;
        LiveAttempt& attempt = attempts.open(attempt_1);
        attempt.context = std::make_shared<const AttemptContext>(std::move(context));
        attempt.number = 1;
        REQUIRE(storage::claim_attempt(
            *store, "digits", {.number = 1, .cluster_id = "c0ffee", .run_id = "c0ffee-17", .job_json = "{}"}, ""));
    }
    static ThisNode this_node(const std::string& data_dir) {
        ThisNode node{.files = {data_dir, data_dir + "/scratch"}};
        node.options.allow_root_workers = true;
        node.identity.node = "n1";
        return node;
    }
    bool until(const std::function<bool()>& done) {
        bool met = false;
        std::int64_t left_ms = 20'000;
        const std::function<void()> look = [&] {
            met = done();
            if (met || (left_ms -= 10) <= 0) return loop.net().stop();
            loop.net().after(10, look);
        };
        loop.net().post(look);
        loop.net().run();
        return met;
    }
    std::string metrics() const { return runs + "/digits/attempts/000001/metrics-000001.jsonl"; }
};

}  // namespace

TEST_CASE(
    "metrics that an agent before this one kept reach the run's journal, those of an unknown attempt are dropped") {
    StorageStory story;
    REQUIRE(Journal(story.node.files.journal(attempt_1)).add("{\"report\":1}\n"));
    MetricsJournals journals(story.loop.net(), story.node, story.attempts);
    journals.add({.attempt = {18, 1}, .index = 1});
    CHECK_FALSE(fs::exists(story.node.files.journal({18, 1})));
    journals.open(attempt_1);
    journals.deliver(attempt_1);
    REQUIRE(story.until([&] { return fs::exists(story.metrics()) && journals.find(attempt_1)->empty(); }));
    CHECK(read_whole(story.metrics()).value() == "{\"report\":1}\n");
    journals.close(attempt_1);
    CHECK(journals.find(attempt_1) == nullptr);
}

TEST_CASE("the end of an attempt is written beside its run, and then what the node kept of it goes") {
    StorageStory story;
    const std::string kept = story.node.files.attempt(attempt_1);
    PendingDeliveries pending(story.loop.state(), story.loop.net(), story.node, story.attempts, story.logs);
    pending.write_end({.attempt = attempt_1, .end = {.number = 1, .state = "SUCCEEDED"}});
    CHECK(fs::exists(story.node.files.pending_delivery(attempt_1)));  // stored for the next agent before the first try
    CHECK_FALSE(pending.has_logs(attempt_1));
    REQUIRE(story.until([&] { return !fs::exists(kept); }));
    CHECK(storage::read_end(*story.store, "digits", 1)->state == "SUCCEEDED");
}

TEST_CASE("while what an attempt left is on its way, its run's files are not removed") {
    StorageStory story;
    PendingDeliveries pending(story.loop.state(), story.loop.net(), story.node, story.attempts, story.logs);
    const protocol::Clear order{.run_name = "digits", .storage_path = story.runs};
    CHECK(pending.hold(order).empty());
    pending.release(order, false);
    pending.write_end({.attempt = attempt_1, .end = {.number = 1, .state = "FAILED"}});
    CHECK(pending.hold(order) == "what its attempt 1 left is on its way there at this moment");
    REQUIRE(story.until([&] { return pending.hold(order).empty(); }));
    CHECK(storage::read_end(*story.store, "digits", 1)->state == "FAILED");
}

TEST_CASE("a stop that comes before the setup has begun ends the preparation: the setup does not run") {
    StorageStory story;
    story.loop.begin(AgentState{.node = "n1", .boot_id = "boot"});
    Preparations preparations(story.loop, story.loop.state(), story.loop.net(), story.node, story.attempts, story.logs);
    protocol::Prepare order = prepare_order({});
    order.storage_path = story.runs;
    order.job_json = R"({"version":1,"name":"digits","entrypoint":["true"],"setup":"touch )" + story.folder.path +
                     R"(/ran; exec tail -f /dev/null","storage_path":")" + story.runs + R"("})";
    bool empty = false;
    story.loop.connect({.posted = [] { return std::vector<WorkerMessage>{}; },
                        .check = [](WorkerMessage&) {},
                        .perform =
                            [&](const Output& output) {
                                if (const auto* start = std::get_if<StartPreparation>(&output))
                                    preparations.start(*start);
                                if (const auto* news = std::get_if<KeepNews>(&output))
                                    empty = empty || std::holds_alternative<protocol::Emptied>(news->news.what);
                            },
                        .wake = [] {}});
    story.loop.enqueue(HeadConnected{});
    story.loop.enqueue(HeadMessage{protocol::Welcome{.cluster_id = "c0ffee"}});
    story.loop.enqueue(HeadMessage{order});
    preparations.cancel(attempt_1);  // the agent does this at the stop; there is nothing to cancel yet
    story.loop.enqueue(HeadMessage{protocol::Stop{.attempt = order.attempt, .end_as = "STOPPED"}});
    CHECK(story.until([&] { return empty; }));
    CHECK_FALSE(fs::exists(story.folder.path + "/ran"));
}

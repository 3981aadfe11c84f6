// Files that the storage did not accept: the run to which they belong, and how they are kept for the next agent.
#include "daemon/agent/delivery/pending_delivery.hpp"

#include <filesystem>
#include <fstream>

#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

namespace fs = std::filesystem;

// Attempt 1 of run digits on n1 has ended. Its logs and its end are still on the node.
struct DeliveryStory {
    Folder folder;
    std::string runs = folder.path + "/runs", run = runs + "/digits";
    NodeFacts facts{.files = {folder.path, folder.path + "/scratch"}, .node = "n1", .may_run_as_root = true};
    std::shared_ptr<storage::Store> store = storage::open_file_store(runs).value();
    SavedAttempt saved{.prepare = prepare_order({}), .number = 1};
    PendingDelivery delivery;

    DeliveryStory() {
        saved.prepare.cluster_id = "c0ffee";
        saved.prepare.run_id = "c0ffee-17";
        saved.prepare.storage_path = runs;
        saved.prepare.job_json = R"({"version":1,"name":"digits","entrypoint":["true"]})";
        write(facts.files.log(attempt_1, 0, "out"), "through\n");
        write(runs + "/other/run.json", "{}");
        delivery = delivery_of(saved, "1", facts.files);
        delivery.end = storage::AttemptEnd{.number = 1, .state = "SUCCEEDED"};
    }
    static void write(const fs::path& file, const std::string& text) {
        fs::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    void claimed_by(const std::string& cluster_id, const std::string& run_id) const {
        const auto claimed = storage::claim_attempt(
            *store, "digits", {.number = 1, .cluster_id = cluster_id, .run_id = run_id, .job_json = "{}"}, "");
        REQUIRE(claimed);
        REQUIRE(claimed->number == 1);
    }
    std::string log() const { return run + "/logs/attempt-000001/rank-00000.out"; }
};

}  // namespace

TEST_CASE("logs and the end of an attempt come to the run that claimed it, also where run.json is of the one before") {
    DeliveryStory story;
    DeliveryStory::write(story.run + "/run.json", R"({"cluster_id":"c0ffee","run_id":"c0ffee-3"})");
    story.claimed_by("c0ffee", "c0ffee-17");
    const Tried tried = deliver(story.delivery, story.facts);
    if (!tried.all) FAIL(tried.all.error().message);
    CHECK_FALSE(tried.run_is_gone);
    CHECK(read_whole(story.log()).value() == "through\n");
    CHECK(storage::read_end(*story.store, "digits", 1)->state == "SUCCEEDED");
}

TEST_CASE("nothing is written into a run that was removed, nor into another one of its name") {
    DeliveryStory story;
    const std::string next = GENERATE("", "c0ffee", "decaf");
    if (!next.empty()) story.claimed_by(next, next == "c0ffee" ? "c0ffee-18" : "c0ffee-17");
    const Tried tried = deliver(story.delivery, story.facts);
    CHECK(tried.all.ok());
    CHECK(tried.run_is_gone);
    CHECK_FALSE(fs::exists(story.run + "/logs"));
    CHECK_FALSE(fs::exists(story.run + "/attempts/000001/end.json"));
    CHECK(fs::exists(story.run) == !next.empty());
}

TEST_CASE("storage that cannot be read, or may not be mounted, is tried again and not written to") {
    DeliveryStory story;
    const bool mounted = GENERATE(true, false);
    if (mounted)
        DeliveryStory::write(story.run + "/attempts", "in the way");
    else
        fs::remove_all(story.runs + "/other");
    const Tried tried = deliver(story.delivery, story.facts);
    CHECK_FALSE(tried.all.ok());
    CHECK_FALSE(tried.run_is_gone);
    CHECK_FALSE(fs::exists(story.run + "/logs"));
    story.delivery.prepare.storage_path = story.facts.files.log(attempt_1, 0, "out");
    story.delivery.context = nullptr;
    CHECK_FALSE(deliver(story.delivery, story.facts).all.ok());
}

TEST_CASE("the next agent finds what is undelivered, the end included; a mark of before names the time alone") {
    DeliveryStory story;
    story.delivery.since_wall_ms = 1'700'000'000'000;
    story.delivery.logs = GENERATE(false, true);
    story.delivery.end->ranks[0] = {.exit_code = 3, .detail = "ValueError"};
    const PendingDelivery again = delivery_of(story.saved, encode_mark(story.delivery), story.facts.files);
    CHECK(again.since_wall_ms == story.delivery.since_wall_ms);
    CHECK(again.logs == story.delivery.logs);
    CHECK(again.end == story.delivery.end);
    const PendingDelivery old = delivery_of(story.saved, "1700000000000", story.facts.files);
    CHECK(old.since_wall_ms == story.delivery.since_wall_ms);
    CHECK(old.logs);
    CHECK_FALSE(old.end);
}

// The journal of the head. Committed data is present after a restart, and only one head may open it.
#include <sys/wait.h>
#include <unistd.h>

#include "storage/state/schema.hpp"
#include "tests/unit/state_story.hpp"

using namespace rtrain;
using namespace rtrain::state;

TEST_CASE("what was committed is there after a restart, event by event") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) {
        story.happen(events);
        Cluster before = story.cluster;
        story.journal.reset();
        story.open();
        CHECK(story.cluster == before);
    }
    CHECK(story.cluster.runs.size() == 3);
    CHECK(story.cluster.nodes.size() == 2);
    CHECK(invariants(story.cluster).empty());
}

TEST_CASE("events are read in order, by page and by run, and their numbers go on after a restart") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    std::vector<EventRow> all = story.journal->events({0}, 1'000);
    REQUIRE(all.size() > 4);
    for (std::size_t i = 1; i < all.size(); ++i) CHECK(all[i - 1].id < all[i].id);
    CHECK(story.journal->events(all[1].id, 1).at(0).id == all[2].id);
    for (const EventRow& row : story.journal->events({0}, 1'000, RunId{1})) CHECK(row.about_run == RunId{1});
    CHECK(story.journal->last_event().value == 13);
    story.journal.reset();
    story.open();
    const Notice notice{
        .wall_ms = 5, .text = "storage is nearly full", .about_run = RunId{1}, .about_node = NodeId{"n1"}};
    REQUIRE(story.journal->commit(Batch{.notices = {notice}}).ok());
    CHECK(story.journal->last_event().value == 14);
    EventRow row = story.journal->events({13}, 10).at(0);
    CHECK(row.kind == "Notice");
    CHECK(row.note == "storage is nearly full");
    CHECK(row.about_node == NodeId{"n1"});
}

TEST_CASE("a commit that fails changes nothing") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    Cluster before = story.cluster;
    Database other = std::move(Database::open(scratch / "data/state.db", Database::Mode::existing)).value();
    REQUIRE(other
                .run("CREATE TRIGGER refuse BEFORE INSERT ON records WHEN NEW.kind='node' BEGIN SELECT RAISE(ABORT, "
                     "'injected'); END")
                .ok());
    Status committed =
        story.journal->commit({story.decided(run_is_submitted("fourth")), story.decided(node_joins("n3"))});
    REQUIRE_FALSE(committed.ok());
    CHECK(committed.error().message.find("injected") != std::string::npos);
    CHECK(story.journal->last_event().value == 13);
    REQUIRE(other.run("DROP TRIGGER refuse").ok());
    story.journal.reset();
    story.open();
    CHECK(story.cluster == before);
}

TEST_CASE("a second head on the same directory is refused, with the pid of the first") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    Error refused = SqliteJournal::open(scratch / "data").error();
    CHECK(refused.code == ErrorCode::conflict);
    CHECK(refused.message.find("process " + std::to_string(getpid())) != std::string::npos);
    CHECK(SqliteJournal::restore_backup(scratch / "data/state.db", scratch / "data").error().code ==
          ErrorCode::conflict);
    story.journal.reset();
    CHECK(SqliteJournal::open(scratch / "data").ok());
}

TEST_CASE("a head killed in the middle of its life leaves no lock and loses no commit") {
    ScratchDirectory scratch;
    std::string directory = scratch / "data";
    pid_t child = fork();
    if (child == 0) {
        Story story(directory);
        for (const auto& events : small_history()) story.happen(events);
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    Story story(directory);
    CHECK(story.journal->last_event().value == 13);
    CHECK(story.cluster.runs.size() == 3);
}

TEST_CASE("a database of a newer version is refused, and left as it was") {
    ScratchDirectory scratch;
    std::string path = scratch / "data/state.db";
    Story(scratch / "data").happen({HeadStarted{}});
    {  // writes the version of a newer program
        Database database = std::move(Database::open(path, Database::Mode::existing)).value();
        REQUIRE(database.run("PRAGMA user_version=99").ok());
        REQUIRE(write_setting(database, "schema_version", "99").ok());
    }
    std::string before = read_bytes(path);
    Error refused = SqliteJournal::open(scratch / "data").error();
    CHECK(refused.code == ErrorCode::conflict);
    CHECK(refused.message.find("newer") != std::string::npos);
    CHECK(read_bytes(path) == before);
}

TEST_CASE("members of a record that a newer minor version wrote are still there after we changed the record") {
    ScratchDirectory scratch;
    {
        Story story(scratch / "data");
        for (const auto& events : small_history()) story.happen(events);
    }
    std::string json = R"({"v":1,"type":"Node","id":"n2","address":"10.0.0.1","port":7434,"rack":{"row":7}})";
    {
        Database database = std::move(Database::open(scratch / "data/state.db", Database::Mode::existing)).value();
        REQUIRE(insert_row(database, "records", {std::string("node"), std::string("n2"), Null{}, json}).ok());
    }
    Story story(scratch / "data");
    story.happen({node_joins("n2")});
    story.journal.reset();
    Database database = std::move(Database::open(scratch / "data/state.db", Database::Mode::existing)).value();
    std::string after;
    REQUIRE(database.each("SELECT json FROM records WHERE key='n2'", {}, [&](const Row& row) { after = row.text(0); })
                .ok());
    CHECK(after.find(R"("rack":{"row":7})") != std::string::npos);
    CHECK(after.find(R"("gpus":2)") != std::string::npos);
}

TEST_CASE("a lost database is not taken for a first start") {
    ScratchDirectory scratch;
    Story(scratch / "data").happen({HeadStarted{}});
    std::filesystem::remove(scratch / "data/state.db");
    Error refused = SqliteJournal::open(scratch / "data").error();
    CHECK(refused.code == ErrorCode::damaged);
    CHECK(refused.next.find("restore-backup") != std::string::npos);
}

TEST_CASE("tokens and settings are kept, and written over") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    TokenRow token{
        .id = "t1", .secret_hash = "h", .role = "node", .user = "ana", .created_wall_ms = 5, .expires_wall_ms = 9};
    token.uses_left = 1;
    REQUIRE(story.journal->save_token(token).ok());
    token.uses_left = 0;
    token.revoked = true;
    REQUIRE(story.journal->save_token(token).ok());
    REQUIRE(story.journal->save_setting("cluster_name", "lab").ok());
    REQUIRE(story.journal->save_setting("cluster_name", "lab 2").ok());
    story.journal.reset();
    story.open();
    REQUIRE(story.journal->tokens().size() == 1);
    CHECK(story.journal->tokens()[0].revoked);
    CHECK(story.journal->tokens()[0].uses_left == 0);
    CHECK(story.journal->setting("cluster_name") == "lab 2");
    CHECK_FALSE(story.journal->setting("snapshot_event"));
}

TEST_CASE("metrics drop repeats, page over attempts, and are forgotten with their run") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    auto row = [](std::uint32_t attempt_number, std::uint64_t index) {
        return MetricRow{
            .attempt = attempt(1, attempt_number), .index = index, .wall_ms = 1, .ranks_json = R"({"0":{"loss":1}})"};
    };
    REQUIRE(story.journal->commit(Batch{.metrics = {row(1, 1), row(1, 2), row(1, 2)}}).ok());
    REQUIRE(story.journal->commit(Batch{.metrics = {row(1, 2), row(2, 1)}}).ok());
    std::vector<MetricRow> all = story.journal->metrics({1}, 0, {}).rows;
    REQUIRE(all.size() == 3);
    CHECK(all[2].attempt == attempt(1, 2));
    std::vector<MetricRow> page = story.journal->metrics({1}, all[1].position, {}).rows;
    REQUIRE(page.size() == 1);
    CHECK(page[0] == all[2]);
    const Entry removal{.event = RunRemoved{{1}}, .records = {EraseRun{{1}}}};
    REQUIRE(story.journal->commit(Batch{.entries = {removal}, .metrics = {row(2, 2)}}).ok());
    CHECK(story.journal->metrics({1}, 0, {}).rows.empty());
}

// Attempts stored in parts. Changes of a gang from its nodes are stored beside the attempt's record until that is
// written again.
#include <filesystem>

#include "storage/state/audit_table.hpp"
#include "storage/state/schema.hpp"
#include "tests/unit/state_story.hpp"

using namespace rtrain;
using namespace rtrain::state;

namespace {

std::int64_t rows_of(const std::string& path, const std::string& kind) {
    Database database = std::move(Database::open(path, Database::Mode::existing)).value();
    Result<std::int64_t> rows = database.integer("SELECT count(*) FROM records WHERE kind=?", {kind});
    if (!rows) FAIL(rows.error().message);
    return *rows;
}

// Submits a run of two workers on two nodes, whose second worker has started.
void begin_gang(Story& story) {
    Event gang = run_is_submitted("gang");
    auto& submitted = std::get<RunSubmitted>(gang);
    submitted.spec.gang.bundles.assign(2, Bundle{.demand = {{"CPU", units(8)}}, .selector = {}});
    story.happen({HeadStarted{.wall_ms = 1}, node_joins("n1"), node_joins("n2"), gang});
    const Attempt& placed = story.cluster.attempts.at(attempt(1, 1));
    const NodeId first = placed.workers[0].seat.node, second = placed.workers[1].seat.node;
    story.happen({NodePrepared{.attempt = attempt(1, 1), .incarnation = 1, .node = second}});
    CHECK(story.cluster.attempts.at(attempt(1, 1)).nodes_waiting == std::vector{first});
}

}  // namespace

TEST_CASE("what a node says of a gang is saved beside the attempt, and in it once that is written again") {
    ScratchDirectory scratch;
    const std::string path = scratch / "data/state.db";
    Story story(scratch / "data");
    const auto reopened = [&] {
        const Cluster before = story.cluster;
        story.journal.reset();
        story.open();
        return story.cluster == before;
    };
    begin_gang(story);
    CHECK(rows_of(path, "attempt_node") == 1);
    CHECK(reopened());
    const NodeId first = story.cluster.attempts.at(attempt(1, 1)).workers[0].seat.node;
    story.happen({NodePrepared{.attempt = attempt(1, 1),
                               .incarnation = 1,
                               .node = first,
                               .claimed_number = 1,
                               .from = "",
                               .master_address = "10.0.0.1",
                               .master_port = 20'000}});
    CHECK(rows_of(path, "attempt_node") == 0);
    story.happen({WorkerStarted{.attempt = attempt(1, 1), .rank = {1}, .pid = 78}});
    CHECK(rows_of(path, "attempt_worker") == 1);
    CHECK(reopened());
    story.happen({WorkerStarted{.attempt = attempt(1, 1), .rank = {0}, .pid = 77}});
    CHECK(rows_of(path, "attempt_worker") == 0);
    CHECK(reopened());
    story.happen({WorkerExited{.attempt = attempt(1, 1), .rank = {0}, .cause = {.exit_code = 0}},
                  WorkerExited{.attempt = attempt(1, 1), .rank = {1}, .cause = {.exit_code = 0}}});
    CHECK(rows_of(path, "attempt_worker") == 0);
    CHECK(reopened());
    CHECK(SqliteJournal::verify(scratch / "data").ok());
}

TEST_CASE("a claim that takes another number, and a removal, leave no part of an attempt behind") {
    ScratchDirectory scratch;
    const std::string path = scratch / "data/state.db";
    Story story(scratch / "data");
    begin_gang(story);
    const NodeId first = story.cluster.attempts.at(attempt(1, 1)).workers[0].seat.node;
    story.happen({NodePrepared{.attempt = attempt(1, 1),
                               .incarnation = 1,
                               .node = first,
                               .claimed_number = 4,
                               .from = "",
                               .master_address = "10.0.0.1",
                               .master_port = 20'000}});
    CHECK(rows_of(path, "attempt_node") == 0);
    story.happen({WorkerStarted{.attempt = attempt(1, 4), .rank = {1}, .pid = 78}});
    CHECK(rows_of(path, "attempt_worker") == 1);
    const auto stop = RunStopAsked{.run = {1}, .by = "ana", .wall_ms = 9};
    story.happen({stop, NodeEmptied{.attempt = attempt(1, 4), .node = {"n1"}},
                  NodeEmptied{.attempt = attempt(1, 4), .node = {"n2"}}});
    CHECK(rows_of(path, "attempt_worker") == 0);
    story.happen({RunRemoved{.run = {1}}});
    CHECK(rows_of(path, "attempt") == 0);
    CHECK(SqliteJournal::verify(scratch / "data").ok());
}

TEST_CASE("a part whose attempt is gone is damage") {
    ScratchDirectory scratch;
    {
        Story story(scratch / "data");
        begin_gang(story);
    }
    {
        Database database = std::move(Database::open(scratch / "data/state.db", Database::Mode::existing)).value();
        REQUIRE(database.run("DELETE FROM records WHERE kind='attempt'").ok());
    }
    const Error refused = SqliteJournal::open(scratch / "data").error();
    CHECK(refused.code == ErrorCode::damaged);
    CHECK(refused.message.find("attempt_node") != std::string::npos);
}

// Makes the database one of an earlier version, which had no audit.
static void make_older(const ScratchDirectory& scratch, const std::string& version) {
    Database database = std::move(Database::open(scratch / "data/state.db", Database::Mode::existing)).value();
    REQUIRE(database.run("DROP TABLE audit").ok());
    REQUIRE(database.run("PRAGMA user_version=" + version).ok());
    REQUIRE(write_setting(database, "schema_version", version).ok());
}

TEST_CASE("a database of version 2 is opened, and its events are not replayed") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    const Cluster before = story.cluster;
    story.journal.reset();
    make_older(scratch, "2");
    const Error early = SqliteJournal::verify(scratch / "data").error();
    CHECK(early.code == ErrorCode::conflict);
    CHECK(early.message.find("earlier build") != std::string::npos);
    story.open();
    CHECK(story.cluster == before);
    Result<std::string> verified = SqliteJournal::verify(scratch / "data");
    if (!verified) FAIL(verified.error().message);
    CHECK(verified->find("0 events after number 13 replayed") == 0);
}

TEST_CASE("a database of version 3 is opened, gets an audit, and keeps its events") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    const Cluster before = story.cluster;
    story.journal.reset();
    make_older(scratch, "3");
    CHECK(SqliteJournal::audit_of(scratch / "data", 0, 10).value().empty());
    story.open();
    CHECK(story.cluster == before);
    CHECK(story.journal->audit(0, {}).rows.empty());
    Result<std::string> verified = SqliteJournal::verify(scratch / "data");
    if (!verified) FAIL(verified.error().message);
    CHECK(verified->find("13 events after number 0 replayed") == 0);
}

TEST_CASE("rows of the audit are chained in the transaction of their change; a change, a gap and a cut end show") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const char* user : {"ann", "bob", "cid"}) {
        Batch batch;
        batch.settings["what"] = user;
        batch.audit.push_back({.wall_ms = 5, .user = user, .action = "POST /v1/runs"});
        REQUIRE(story.journal->commit(batch).ok());
    }
    const auto rows = story.journal->audit(0, {}).rows;
    REQUIRE(rows.size() == 3);
    CHECK(rows[2].sequence == 3);
    CHECK(rows[1].hash == audit_hash(rows[0].hash, rows[1]));
    CHECK(story.journal->audit_end() == AuditEnd{3, rows[2].hash});
    story.journal.reset();
    const auto after = [&](const char* sql) {
        std::filesystem::copy_file(scratch / "data/state.db", scratch / "copy",
                                   std::filesystem::copy_options::overwrite_existing);
        Database database = std::move(Database::open(scratch / "copy", Database::Mode::existing)).value();
        REQUIRE(database.run(sql).ok());
        AuditEnd end;
        std::string fault;
        const auto kept = read_audit(database, 0, {});
        REQUIRE(kept);
        for (const AuditRow& row : kept->rows)
            if (Status follows = follow(end, row); !follows && fault.empty()) fault = follows.error().message;
        CHECK(check_audit(database).ok() == fault.empty());
        return fault;
    };
    CHECK(after("DELETE FROM audit WHERE seq=0").empty());
    CHECK(after("UPDATE audit SET user='eve' WHERE seq=2").find("row 2 does not have the hash") != std::string::npos);
    CHECK(after("DELETE FROM audit WHERE seq=2").find("row 3 follows row 1") != std::string::npos);
    // Detected only by a comparison with an end that is stored elsewhere.
    CHECK(after("DELETE FROM audit WHERE seq=3").empty());
    story.open();
    CHECK(story.journal->audit_end().sequence == 3);
}

TEST_CASE("old rows of the audit leave the database for files, and the chain holds through both") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    constexpr std::size_t rows = 100;
    for (std::size_t i = 1; i <= rows; ++i) {
        Batch batch;
        batch.audit.push_back(
            {.wall_ms = static_cast<std::int64_t>(i), .user = "ana", .target = "/\u20ac\n" + std::to_string(i)});
        REQUIRE(story.journal->commit(batch).ok());
    }
    const std::vector<AuditRow> before = story.journal->audit(0, {}).rows;
    REQUIRE(before.size() == rows);
    constexpr SqliteJournal::AuditBounds most{.kept = 25, .segment = 20};
    std::size_t segments = 0;
    for (auto more = story.journal->archive_audit(most); more.value(); more = story.journal->archive_audit(most))
        ++segments;
    CHECK(segments == 3);
    CHECK(story.journal->audit(0, {}).rows == before);
    for (const std::size_t page : {1, 7, 20, 41}) {
        std::vector<AuditRow> paged;
        for (bool more = true; more;) {
            PageOf<AuditRow> some = story.journal->audit(paged.empty() ? 0 : paged.back().sequence, {.rows = page});
            std::move(some.rows.begin(), some.rows.end(), std::back_inserter(paged));
            more = some.more;
        }
        CHECK(paged == before);
    }
    Batch later;
    later.audit.push_back({.wall_ms = 1'000, .user = "ben"});
    REQUIRE(story.journal->commit(later).ok());
    story.journal.reset();
    CHECK(SqliteJournal::audit_of(scratch / "data", 0, 1'000).value().size() == rows + 1);
    {
        Database database = Database::open(scratch / "data/state.db", Database::Mode::existing).value();
        CHECK(database.integer("SELECT count(*) FROM audit").value() == 41);
    }
    CHECK(SqliteJournal::verify(scratch / "data").ok());
    story.open();
    CHECK(story.journal->audit_end().sequence == rows + 1);
    story.journal.reset();

    const std::string segment = scratch / "data/audit/000000000021.zst";
    const std::string sound = read_bytes(segment);
    std::string changed = sound;
    changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
    write_bytes(segment, changed);
    CHECK_FALSE(SqliteJournal::verify(scratch / "data").ok());
    std::vector<AuditRow> forged(before.begin() + 20, before.begin() + 40);
    forged[5].user = "eve";
    std::filesystem::remove(segment);
    REQUIRE(write_segment(scratch / "data/audit", forged).ok());
    const auto verified = SqliteJournal::verify(scratch / "data");
    REQUIRE_FALSE(verified.ok());
    CHECK(verified.error().message.find("row 26 does not have the hash") != std::string::npos);
    std::filesystem::remove(segment);
    const auto missing = SqliteJournal::audit_of(scratch / "data", 0, 1'000);
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.error().message.find("rows 21 to 60 of the audit are missing") != std::string::npos);
}

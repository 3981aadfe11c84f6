// Replays of the journal, and backups.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "storage/state/schema.hpp"
#include "tests/unit/state_story.hpp"

using namespace rtrain;
using namespace rtrain::state;

TEST_CASE("verify replays a living head's events to the same records") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    Result<std::string> verified = SqliteJournal::verify(scratch / "data");
    if (!verified) FAIL(verified.error().message);
    CHECK(verified->find("13 events after number 0 replayed") == 0);
    story.happen({run_is_submitted("fourth")});
    CHECK(SqliteJournal::verify(scratch / "data").ok());
}

TEST_CASE("verify names the record that differs, and the event that made the difference") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    Entry entry = story.decided(node_joins("n3"));
    for (Record& record : entry.records)
        if (auto node = std::get_if<Node>(&record)) node->gpus = 5;
    REQUIRE(story.journal->commit({entry}).ok());
    Error differs = SqliteJournal::verify(scratch / "data").error();
    CHECK(differs.code == ErrorCode::damaged);
    CHECK(differs.message.find("event 14 (NodeRegistered)") != std::string::npos);
    CHECK(differs.message.find("node n3") != std::string::npos);
}

TEST_CASE("after old events were pruned a replay begins at the snapshot, and numbers go on") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    story.journal->prune_events(story.now_ms - 2'500);
    CHECK(story.journal->events({0}, 100).front().wall_ms >= story.now_ms - 2'500);
    story.happen({run_is_submitted("fourth")});
    Result<std::string> verified = SqliteJournal::verify(scratch / "data");
    if (!verified) FAIL(verified.error().message);
    CHECK(verified->find("1 events after number 13 replayed") == 0);
    story.journal->prune_events(story.now_ms + 1'000'000);
    story.journal.reset();
    story.open();
    CHECK(story.journal->last_event().value == 14);
}

TEST_CASE("events of another build of rtrain are not replayed, and the next opening begins anew") {
    const std::string other = GENERATE("0.0.9", "0.1.0", "0.1.0+000000000000");  // another version, another decider
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    story.journal.reset();
    {
        Database database = std::move(Database::open(scratch / "data/state.db", Database::Mode::existing)).value();
        REQUIRE(write_setting(database, "snapshot_program", other).ok());
    }
    CHECK(SqliteJournal::verify(scratch / "data").error().code == ErrorCode::conflict);
    story.open();
    Result<std::string> verified = SqliteJournal::verify(scratch / "data");
    if (!verified) FAIL(verified.error().message);
    CHECK(verified->find("0 events after number 13 replayed") == 0);
}

TEST_CASE("a backup made while the head works brings a damaged directory back") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    Cluster then = story.cluster;
    REQUIRE(SqliteJournal::backup(scratch / "data", scratch / "backup.db").ok());
    story.happen({run_is_submitted("later")});
    REQUIRE(SqliteJournal::backup(scratch / "data", scratch / "backup-2.db").ok());
    story.journal.reset();
    std::string damaged = read_bytes(scratch / "data/state.db");
    damaged.replace(4'096, 8'192, std::string(8'192, '\x55'));
    write_bytes(scratch / "data/state.db", damaged);
    REQUIRE(SqliteJournal::open(scratch / "data").error().code == ErrorCode::damaged);
    REQUIRE(SqliteJournal::restore_backup(scratch / "backup.db", scratch / "data").ok());
    story.open();
    CHECK(story.cluster == then);
    CHECK(SqliteJournal::verify(scratch / "data").ok());
    CHECK(read_bytes(scratch / "data/state.db.before-restore") == damaged);
    story.journal.reset();
    REQUIRE(SqliteJournal::restore_backup(scratch / "backup-2.db", scratch / "fresh").ok());
    CHECK((*SqliteJournal::open(scratch / "fresh"))->opened().runs.size() == 4);
}

TEST_CASE("what root restores belongs to the owner of the directory, who may be the head's user") {
    if (geteuid() != 0) {
        WARN("not checked: only root gives files away");
        return;
    }
    ScratchDirectory scratch;
    Story story(scratch / "data");
    story.happen({run_is_submitted("one")});
    REQUIRE(SqliteJournal::backup(scratch / "data", scratch / "backup.db").ok());
    std::filesystem::create_directories(scratch / "of-nobody");
    REQUIRE(chown((scratch / "of-nobody").c_str(), 65'534, 65'534) == 0);
    REQUIRE(SqliteJournal::restore_backup(scratch / "backup.db", scratch / "of-nobody").ok());
    for (const char* name : {"of-nobody/state.db", "of-nobody/state.lock"}) {
        struct stat facts{};
        REQUIRE(stat((scratch / name).c_str(), &facts) == 0);
        CHECK(facts.st_uid == 65'534);
    }
    // The directory's owner links a file of root's there, to get ownership of it.
    REQUIRE(std::filesystem::remove(scratch / "of-nobody/state.lock"));
    write_bytes(scratch / "of-root", "");
    std::filesystem::create_hard_link(scratch / "of-root", scratch / "of-nobody/state.lock");
    const auto refused = SqliteJournal::restore_backup(scratch / "backup.db", scratch / "of-nobody");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("no plain file with one name") != std::string::npos);
    struct stat root_owned{};
    REQUIRE(stat((scratch / "of-root").c_str(), &root_owned) == 0);
    CHECK(root_owned.st_uid == 0);
    CHECK_FALSE(std::filesystem::exists(scratch / "of-nobody/state.db.restoring"));
}

TEST_CASE("a damaged backup changes nothing, and a file that is no backup is not written over") {
    ScratchDirectory scratch;
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    REQUIRE(SqliteJournal::backup(scratch / "data", scratch / "backup.db").ok());
    REQUIRE(SqliteJournal::backup(scratch / "data", scratch / "backup.db").ok());
    write_bytes(scratch / "thesis.txt", "years of work");
    CHECK(SqliteJournal::backup(scratch / "data", scratch / "thesis.txt").error().code == ErrorCode::conflict);
    CHECK(read_bytes(scratch / "thesis.txt") == "years of work");
    story.journal.reset();
    std::string bytes = read_bytes(scratch / "backup.db");
    bytes[bytes.size() / 2] ^= 0x10;
    bytes.replace(5'000, 100, std::string(100, 'x'));
    write_bytes(scratch / "backup.db", bytes);
    std::string before = read_bytes(scratch / "data/state.db");
    Error refused = SqliteJournal::restore_backup(scratch / "backup.db", scratch / "data").error();
    CHECK(refused.code == ErrorCode::damaged);
    CHECK(read_bytes(scratch / "data/state.db") == before);
    CHECK(SqliteJournal::restore_backup(scratch / "nothing", scratch / "data").error().code == ErrorCode::not_found);
    story.open();
    CHECK(story.cluster.runs.size() == 3);
}

// The database after a crash or a disk error. With a cut or torn WAL it opens in the state before or after a
// transaction. A changed byte in the main file is detected, or has no meaning.
#include <sqlite3.h>

#include <random>

#include "storage/state/sqlite.hpp"
#include "tests/unit/state_story.hpp"

using namespace rtrain;
using namespace rtrain::state;

namespace {

// The files of a head that was killed after two transactions since the database was last closed. Also its three states,
// and the WAL's length at each.
struct Wreck {
    std::string main, wal, lock;
    std::vector<Cluster> states;
    std::vector<std::size_t> ends;
};

Wreck wreck() {
    ScratchDirectory scratch;
    Wreck wreck;
    std::filesystem::create_directories(scratch / "data");
    {  // with small pages there are fewer bytes to cut, and each transaction touches more pages
        Database database = Database::open(scratch / "data/state.db", Database::Mode::create).value();
        REQUIRE(database.run("PRAGMA page_size=1024").ok());
        REQUIRE(database.run("PRAGMA application_id=1").ok());
    }
    Story story(scratch / "data");
    for (const auto& events : small_history()) story.happen(events);
    story.journal.reset();
    wreck.main = read_bytes(scratch / "data/state.db");
    story.open();
    auto remember = [&] {
        wreck.states.push_back(story.cluster);
        wreck.ends.push_back(std::filesystem::file_size(scratch / "data/state.db-wal"));
    };
    remember();
    story.happen({NodeUndrained{.node = {"n2"}}});
    remember();
    story.happen({RunStopAsked{.run = {3}, .by = "ana", .wall_ms = 9}});
    remember();
    wreck.wal = read_bytes(scratch / "data/state.db-wal");
    wreck.lock = read_bytes(scratch / "data/state.lock");
    REQUIRE(wreck.ends[2] == wreck.wal.size());
    REQUIRE_FALSE(wreck.states[1] == wreck.states[0]);
    REQUIRE_FALSE(wreck.states[2] == wreck.states[1]);
    return wreck;
}

// Returns the next byte at which the WAL is cut or torn: every byte of the headers, and every 31st of a page. The bytes
// of a page are equivalent, since SQLite applies a frame as a whole or not at all.
std::size_t next_place(std::size_t at) {
    constexpr std::size_t file_header = 32, frame_header = 24, frame = frame_header + 1'024;
    if (at < file_header) return at + 1;
    const std::size_t in_frame = (at - file_header) % frame;
    return in_frame < frame_header ? at + 1 : std::min(at + 31, at + frame - in_frame);
}

Result<Cluster> opened_from(const std::string& directory, const Wreck& wreck, std::string_view wal) {
    std::filesystem::create_directories(directory);
    write_bytes(directory + "/state.db", wreck.main);
    write_bytes(directory + "/state.db-wal", wal);
    write_bytes(directory + "/state.lock", wreck.lock);
    std::filesystem::remove(directory + "/state.db-shm");
    Result<std::unique_ptr<SqliteJournal>> journal = SqliteJournal::open(directory);
    if (!journal) return journal.error();
    return (*journal)->opened();
}

}  // namespace

TEST_CASE("the WAL cut anywhere in its last transactions opens to the state before or after one") {
    Wreck wreck = ::wreck();
    ScratchDirectory scratch;
    for (std::size_t cut = 0; cut <= wreck.wal.size(); cut = next_place(cut)) {
        Result<Cluster> cluster = opened_from(scratch / "data", wreck, std::string_view(wreck.wal).substr(0, cut));
        if (!cluster) FAIL("cut at " << cut << ": " << cluster.error().message);
        std::size_t whole = cut >= wreck.ends[2] ? 2 : cut >= wreck.ends[1] ? 1 : 0;
        if (!(*cluster == wreck.states[whole]))
            FAIL("cut at " << cut << " is not the state after transaction " << whole);
    }
    SUCCEED();
}

TEST_CASE("the WAL torn anywhere in its last transaction opens to the state before or after one") {
    Wreck wreck = ::wreck();
    ScratchDirectory scratch;
    std::mt19937 random(11);
    std::string garbage(wreck.wal.size(), ' ');
    for (char& byte : garbage) byte = static_cast<char>(random());
    for (std::size_t torn = wreck.ends[1]; torn < wreck.wal.size(); torn = next_place(torn)) {
        std::string wal = wreck.wal;
        std::size_t length = torn % 2 == 0 ? 1 + torn % 512 : wal.size() - torn;  // a piece, or the whole rest
        wal.replace(torn, length, garbage, torn, std::min(length, wal.size() - torn));
        if (wal == wreck.wal) continue;
        Result<Cluster> cluster = opened_from(scratch / "data", wreck, wal);
        if (!cluster) FAIL("torn at " << torn << ": " << cluster.error().message);
        // Transactions before the torn byte are complete.
        bool legal = *cluster == wreck.states[1] || *cluster == wreck.states[2];
        if (!legal) FAIL("torn at " << torn << " is no state the head was in");
    }
    SUCCEED();
}

TEST_CASE("a changed byte in the main file is noticed at open and answered with the way out, or means nothing") {
    ScratchDirectory scratch;
    Wreck whole;
    {
        Story story(scratch / "first");
        for (const auto& events : small_history()) story.happen(events);
        whole.states.push_back(story.cluster);
    }
    whole.main = read_bytes(scratch / "first/state.db");
    whole.lock = read_bytes(scratch / "first/state.lock");
    std::size_t noticed = 0;
    for (std::size_t at = 0; at < whole.main.size(); at += at < 1'024 ? 1 : 61) {
        Wreck changed = whole;
        changed.main[at] = static_cast<char>(changed.main[at] ^ (1 << at % 8));
        Result<Cluster> cluster = opened_from(scratch / "data", changed, "");
        if (cluster && *cluster == whole.states[0]) continue;
        if (cluster) FAIL("byte " << at << " was changed, and another state came out");
        if (cluster.error().code != ErrorCode::damaged) FAIL("byte " << at << ": " << cluster.error().message);
        if (cluster.error().next.find("rtrain head restore-backup") == std::string::npos) FAIL(cluster.error().next);
        ++noticed;
    }
    CHECK(noticed > 100);
}

TEST_CASE("what cannot be read for want of memory is no damage: no backup has to be restored for it") {
    const Wreck wreck = ::wreck();
    const ScratchDirectory scratch;
    REQUIRE(opened_from(scratch / "data", wreck, wreck.wal).ok());
    int refused = 0, opened = 0;
    for (std::int64_t room = 4'096; opened < 3 && room < (std::int64_t{64} << 20); room += room / 16) {
        sqlite3_hard_heap_limit64(sqlite3_memory_used() + room);
        const auto journal = SqliteJournal::open(scratch / "data");
        sqlite3_hard_heap_limit64(0);
        ++(journal ? opened : refused);
        if (journal) continue;
        CAPTURE(room, journal.error().message);
        REQUIRE(journal.error().code == ErrorCode::io);
        REQUIRE(journal.error().next.find("restore-backup") == std::string::npos);
    }
    CHECK(refused > 10);
    CHECK(opened == 3);
}

TEST_CASE("a main file cut short or replaced by something else is damage") {
    Wreck wreck = ::wreck();
    ScratchDirectory scratch;
    std::string main = wreck.main;
    for (std::size_t size : {std::size_t{0}, std::size_t{50}, std::size_t{5'000}, main.size() - 1'024}) {
        wreck.main = main.substr(0, size);
        Result<Cluster> cluster = opened_from(scratch / "data", wreck, "");
        CAPTURE(size);
        REQUIRE_FALSE(cluster.ok());
        CHECK(cluster.error().code == ErrorCode::damaged);
    }
    wreck.main = std::string(20'000, 'x');
    CHECK(opened_from(scratch / "data", wreck, "").error().code == ErrorCode::damaged);
}

TEST_CASE("what news meant and their number are in one transaction: the WAL cut anywhere has both or neither") {
    ScratchDirectory scratch;
    Wreck wreck;
    {
        Story story(scratch / "first");
        for (const auto& events : small_history()) story.happen(events);
        story.journal.reset();
        wreck.main = read_bytes(scratch / "first/state.db");
        story.open();
        Batch batch{.entries = {story.decided(NodeUndrained{.node = {"n2"}})},
                    .notices = {{.wall_ms = 5, .text = "the disk is slow", .about_run = RunId{1}, .about_node = {}}},
                    .metrics = {{.attempt = attempt(1, 1), .index = 1, .wall_ms = 5, .ranks_json = "{}"}},
                    .settings = {{"news_seen/n1", "7"}}};
        REQUIRE(story.journal->commit(batch).ok());
        wreck.wal = read_bytes(scratch / "first/state.db-wal");
        wreck.lock = read_bytes(scratch / "first/state.lock");
    }
    std::size_t after = 0;
    for (std::size_t cut = 0; cut <= wreck.wal.size(); cut += cut + 64 < wreck.wal.size() ? 61 : 1) {
        REQUIRE(opened_from(scratch / "data", wreck, std::string_view(wreck.wal).substr(0, cut)).ok());
        const auto journal = SqliteJournal::open(scratch / "data").value();
        const bool known = journal->setting("news_seen/n1") == "7";
        const bool decided = journal->opened().nodes.at({"n2"}).state == NodeState::ready;
        const bool noted = journal->events({0}, 1'000).back().note == "the disk is slow";
        const bool measured = journal->metrics({1}, 0, {}).rows.size() == 1;
        if (decided != known || noted != known || measured != known)
            FAIL("cut at " << cut << ": one without the other");
        after += known ? 1 : 0;
    }
    CHECK(after >= 1);
}

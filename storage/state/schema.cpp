// Tables and checks; see the header.
#include "storage/state/schema.hpp"

#include <sqlite3.h>

#include <array>
#include <charconv>
#include <set>
#include <string_view>

namespace rtrain::state {
namespace {

constexpr std::int64_t application_id = 0x7274726e;  // the letters "rtrn"
constexpr const char* restore_hint = "rtrain head restore-backup FILE";
constexpr const char* version_key = "schema_version";

constexpr const char* audit_table =
    "CREATE TABLE audit(seq INTEGER PRIMARY KEY, wall_ms INTEGER NOT NULL, user TEXT NOT NULL, role TEXT NOT NULL, "
    "credential TEXT NOT NULL, origin TEXT NOT NULL, action TEXT NOT NULL, target TEXT NOT NULL, run TEXT NOT NULL, "
    "hash TEXT NOT NULL, sum INTEGER NOT NULL)";
constexpr std::array statements = {
    audit_table,
    // `json`: the whole record. `run`: the run that the record belongs to, by which the records of a removed run are
    // found.
    "CREATE TABLE records(kind TEXT NOT NULL, key TEXT NOT NULL, run INTEGER, json TEXT NOT NULL, sum INTEGER NOT "
    "NULL, "
    "PRIMARY KEY(kind, key)) WITHOUT ROWID",
    "CREATE INDEX records_by_run ON records(run) WHERE run IS NOT NULL",
    // The records as they were after event `snapshot_event` (a setting). A replay begins here.
    "CREATE TABLE snapshot(kind TEXT NOT NULL, key TEXT NOT NULL, run INTEGER, json TEXT NOT NULL, sum INTEGER NOT "
    "NULL, "
    "PRIMARY KEY(kind, key)) WITHOUT ROWID",
    // A notice has no JSON. `saved` is the checksum of the records that the event changed.
    "CREATE TABLE events(id INTEGER PRIMARY KEY, now_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL, kind TEXT NOT "
    "NULL, "
    "note TEXT NOT NULL, run INTEGER, node TEXT, json TEXT, saved INTEGER NOT NULL, sum INTEGER NOT NULL)",
    "CREATE INDEX events_by_run ON events(run, id) WHERE run IS NOT NULL",
    "CREATE TABLE tokens(id TEXT PRIMARY KEY, secret_hash TEXT NOT NULL, role TEXT NOT NULL, user TEXT NOT NULL, "
    "created "
    "INTEGER NOT NULL, expires INTEGER NOT NULL, uses_left INTEGER NOT NULL, revoked INTEGER NOT NULL, sum INTEGER NOT "
    "NULL) WITHOUT ROWID",
    "CREATE TABLE settings(key TEXT PRIMARY KEY, value TEXT NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE metrics(run INTEGER NOT NULL, position INTEGER NOT NULL, attempt INTEGER NOT NULL, idx INTEGER NOT "
    "NULL, "
    "wall_ms INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY(run, position)) WITHOUT ROWID",
    // Sealed rows of `metrics`: see metrics_table.hpp.
    "CREATE TABLE metric_chunks(run INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, level INTEGER NOT "
    "NULL, newest TEXT NOT NULL, rows BLOB NOT NULL, PRIMARY KEY(run, first)) WITHOUT ROWID",
};
// The index that version 1 had on `metrics`, which contained rank 0's metrics only and was not divided into chunks.
constexpr const char* index_of_version_1 = "CREATE UNIQUE INDEX metrics_by_report ON metrics(run, attempt, idx)";
constexpr std::array to_version_2 = {
    "DROP INDEX metrics_by_report",
    "UPDATE metrics SET json = '{\"0\":' || json || '}'",
    statements.back(),
};
// Version 3 has the same tables. Its attempts have rows on top of their own (AttemptNode, AttemptWorker). Its events
// save these rows, so that a replay must begin anew.
constexpr std::array to_version_3 = {"DELETE FROM settings WHERE key='snapshot_program'"};
constexpr std::array to_version_4 = {audit_table};
// Version 5 has the same tables. Its records hold reasons as values (reason_codec.cpp) instead of sentences.
constexpr std::array summed_tables = {"records", "snapshot", "events", "tokens", "settings"};

struct Fnv1a {  // A hash of 64 bits. Each changed byte changes it.
    std::uint64_t state = 0xcbf29ce484222325;
    void byte(unsigned char value) { state = (state ^ value) * 0x100000001b3; }
    void number(std::uint64_t value) {
        for (int shift = 0; shift < 64; shift += 8) byte(static_cast<unsigned char>(value >> shift));
    }
    void text(std::string_view value) {
        number(value.size());
        for (char c : value) byte(static_cast<unsigned char>(c));
    }
};

Error damaged(const std::string& what) {
    return {ErrorCode::damaged, std::string("the state database is damaged: ") + what, restore_hint};
}

// Returns the error of a read that failed. Four causes are no damage: a disk that fails or is full, missing rights, too
// little memory, and a lock of another program. A statement that SQLite does not understand is damage, because the
// tables are not rtrain's.
Error unread(const Error& why) {
    const bool says_so = why.code == ErrorCode::damaged || why.code == ErrorCode::internal;
    return says_so ? damaged(why.message) : why;
}

Status check_sums(Database& database, const std::string& table) {
    std::int64_t wrong = 0;
    Status read = database.each("SELECT * FROM " + table, {}, [&](const Row& row) {
        Values values;
        for (int column = 0; column + 1 < row.size(); ++column) values.push_back(row.value(column));
        if (row.null(row.size() - 1) || checksum(values) != row.integer(row.size() - 1)) ++wrong;
    });
    if (!read) return unread(read.error());
    if (wrong > 0) return damaged(std::to_string(wrong) + " rows of the table " + table + " have a wrong checksum");
    return Done{};
}

// Returns true if SQLite's check could not read a page. The check continues after such a page and reports it only in
// its text: "Page 21: unable to get the page. error code=266", "failed to get page 22".
bool names_unread_page(std::string_view answer) {
    constexpr std::string_view before = "error code=";
    const std::size_t at = answer.rfind(before);
    int code = 0;
    if (at == answer.npos) return answer.find("failed to get page ") != answer.npos;
    answer.remove_prefix(at + before.size());
    if (std::from_chars(answer.data(), answer.data() + answer.size(), code).ec != std::errc()) return false;
    const int kind = code & 0xff;
    return kind != SQLITE_CORRUPT && kind != SQLITE_NOTADB && code != SQLITE_IOERR_SHORT_READ;
}

Status check_structure(Database& database) {
    std::string answer;
    Status checked = database.each("PRAGMA quick_check(1)", {}, [&](const Row& row) { answer = row.text(0); });
    if (!checked) return unread(checked.error());
    if (names_unread_page(answer))
        return Error{ErrorCode::io, "the state database could not be read: " + answer,
                     "check the disk, and the memory of this machine"};
    if (answer != "ok") return damaged(answer);
    return Done{};
}

// Compares the tables with those of this version, column by column: SQLite stores the text of the statements that made
// them.
Status check_tables(Database& database) {
    Result<std::int64_t> version = database.integer("PRAGMA user_version");
    if (!version) return unread(version.error());
    std::set<std::string> ours(statements.begin(), statements.end());
    if (*version < 4) ours.erase(audit_table);
    if (*version == 1) {
        ours.erase(statements.back());
        ours.insert(index_of_version_1);
    }
    std::set<std::string> statements;
    Status read = database.each("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL", {},
                                [&](const Row& row) { statements.insert(row.text(0)); });
    if (!read) return unread(read.error());
    if (statements != ours) return damaged("its tables are not those of this version");
    return Done{};
}

// Returns damaged if the version in the header differs from its copy in the settings, conflict if it is newer than this
// program reads.
Status check_version(Database& database) {
    Result<std::int64_t> id = database.integer("PRAGMA application_id");
    Result<std::int64_t> version = database.integer("PRAGMA user_version");
    if (!id || !version) return unread(id ? version.error() : id.error());
    Result<std::string> copy = read_setting(database, version_key);
    if (!copy) return unread(copy.error());
    if (*id != application_id || *copy != std::to_string(*version))
        return damaged("its header is not that of a state database of rtrain");
    if (*version <= schema_version) return Done{};
    return Error{
        ErrorCode::conflict,
        "the state database is of version " + *copy + ", newer than this rtrain reads (" +
            std::to_string(schema_version) + ")",
        "start the newer rtrain again, or restore a backup made before the upgrade: " + std::string(restore_hint)};
}

}  // namespace

std::int64_t checksum(const Values& values) {
    Fnv1a sum;
    for (const Value& value : values) {
        sum.byte(static_cast<unsigned char>(value.index()));
        if (auto number = std::get_if<std::int64_t>(&value)) sum.number(static_cast<std::uint64_t>(*number));
        if (auto text = std::get_if<std::string>(&value)) sum.text(*text);
    }
    return static_cast<std::int64_t>(sum.state);
}

Status insert_row(Database& database, const std::string& table, Values values) {
    std::string marks = "?";
    for (std::size_t i = 0; i < values.size(); ++i) marks += ",?";
    values.emplace_back(checksum(values));
    return database.run("INSERT OR REPLACE INTO " + table + " VALUES(" + marks + ")", values);
}

Status configure(Database& database) {
    for (const char* pragma : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA cell_size_check=ON"})
        if (Status set = database.run(pragma); !set) return set.error();
    return Done{};
}

namespace {

template <class Statements>
Status change_tables(Database& database, const Statements& changes) {
    Result<Transaction> transaction = Transaction::begin(database, Transaction::Kind::write);
    if (!transaction) return transaction.error();
    for (const char* statement : changes)
        if (Status status = database.run(statement); !status) return status.error();
    std::string version = std::to_string(schema_version);
    for (const std::string& pragma :
         {"PRAGMA application_id=" + std::to_string(application_id), "PRAGMA user_version=" + version})
        if (Status set = database.run(pragma); !set) return set.error();
    if (Status written = write_setting(database, version_key, version); !written) return written.error();
    return transaction->commit();
}

}  // namespace

Status create_tables(Database& database) { return change_tables(database, statements); }

Status bring_up_to_date(Database& database) {
    Result<std::int64_t> version = database.integer("PRAGMA user_version");
    if (!version) return version.error();
    if (*version == schema_version) return Done{};
    std::vector<const char*> changes;
    if (*version == 1) changes.insert(changes.end(), to_version_2.begin(), to_version_2.end());
    if (*version <= 2) changes.insert(changes.end(), to_version_3.begin(), to_version_3.end());
    if (*version <= 3) changes.insert(changes.end(), to_version_4.begin(), to_version_4.end());
    return change_tables(database, changes);
}

Result<bool> is_empty(Database& database) {
    Result<std::int64_t> tables = database.integer("SELECT count(*) FROM sqlite_schema");
    if (!tables) return tables.error();
    return *tables == 0;
}

Status check_whole(Database& database) {
    if (Status whole = check_structure(database); !whole) return whole.error();
    if (Status known = check_version(database); !known) return known.error();
    if (Status ours = check_tables(database); !ours) return ours.error();
    for (const char* table : summed_tables)
        if (Status whole = check_sums(database, table); !whole) return whole.error();
    Result<std::int64_t> version = database.integer("PRAGMA user_version");
    if (!version) return unread(version.error());
    return *version < 4 ? Status(Done{}) : check_sums(database, "audit");
}

Result<std::string> read_setting(Database& database, const std::string& key) {
    std::string value;
    Status read =
        database.each("SELECT value FROM settings WHERE key=?", {key}, [&](const Row& row) { value = row.text(0); });
    if (!read) return read.error();
    return value;
}

Status write_setting(Database& database, const std::string& key, const std::string& value) {
    return insert_row(database, "settings", {key, value});
}

}  // namespace rtrain::state

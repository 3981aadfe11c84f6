// A thin layer over SQLite's C API. Every error names the file and the operation, and quotes SQLite's message.
#include "storage/state/sqlite.hpp"

#include <sqlite3.h>

#include <cerrno>

namespace rtrain::state {
namespace {

// Returns true if the disk is full. SQLite has a code of its own for a full disk under the database and its WAL, but
// not under the -shm file, which it needs even to read.
bool no_room(sqlite3* handle) {
    const int code = sqlite3_extended_errcode(handle), kind = code & 0xff;
    if (kind == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE) return true;
    const int why = kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN ? sqlite3_system_errno(handle) : 0;
    return why == ENOSPC || why == EDQUOT;
}

}  // namespace

int Row::size() const { return sqlite3_column_count(statement_); }
bool Row::null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
std::int64_t Row::integer(int column) const { return sqlite3_column_int64(statement_, column); }
std::string Row::text(int column) const {
    auto text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text ? std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))) : std::string();
}
std::string Row::blob(int column) const {
    auto bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return bytes ? std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)))
                 : std::string();
}
Value Row::value(int column) const {
    if (null(column)) return Null{};
    if (sqlite3_column_type(statement_, column) == SQLITE_INTEGER) return integer(column);
    return text(column);
}

void Database::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
void Database::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
bool Database::last_run_changed_rows() const { return sqlite3_changes(handle_.get()) > 0; }
void Database::leave_wal_on_close() { sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr); }

Result<Database> Database::open(const std::string& path, Mode mode) {
    Database database;
    database.path_ = path;
    sqlite3* handle = nullptr;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE | (mode == Mode::create ? SQLITE_OPEN_CREATE : 0);
    int opened = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
    database.handle_.reset(handle);
    if (opened != SQLITE_OK) return database.error("opening it");
    sqlite3_busy_timeout(handle, 10'000);
    return database;
}

Error Database::error(const std::string& doing) const {
    std::string reason = handle_ ? sqlite3_errmsg(handle_.get()) : "out of memory";
    const bool full = handle_ && no_room(handle_.get());
    if (full) reason = "the disk is full";
    std::string message = path_ + ": " + doing + " failed: " + reason;
    if (full) return {ErrorCode::full, message, "make room on the disk of " + path_};
    const int code = handle_ ? sqlite3_extended_errcode(handle_.get()) : SQLITE_NOMEM;
    // A format number that SQLite never wrote is reported as a plain error. A file that ends within a page is reported
    // as a failing disk.
    if (reason == "unsupported file format" || code == SQLITE_IOERR_SHORT_READ)
        return {ErrorCode::damaged, message, "rtrain head restore-backup FILE"};
    switch (code & 0xff) {
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
            return {ErrorCode::damaged, message, "rtrain head restore-backup FILE"};
        case SQLITE_ERROR:
            return {ErrorCode::internal, message, "rtrain head verify"};
        case SQLITE_BUSY:
            return {ErrorCode::conflict, message, "end the other program that holds " + path_};
    }
    return {ErrorCode::io, message, "check the disk and the permissions of " + path_};
}

Result<sqlite3_stmt*> Database::prepared(const std::string& sql, const Values& values) {
    auto& kept = statements_[sql];
    if (!kept) {
        sqlite3_stmt* statement = nullptr;
        int code = sqlite3_prepare_v3(handle_.get(), sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
        if (code != SQLITE_OK) return error("preparing \"" + sql + "\"");
        kept.reset(statement);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        int position = static_cast<int>(i) + 1;
        if (auto number = std::get_if<std::int64_t>(&values[i]))
            sqlite3_bind_int64(kept.get(), position, *number);
        else if (auto text = std::get_if<std::string>(&values[i]))
            sqlite3_bind_text64(kept.get(), position, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
        else if (auto blob = std::get_if<Blob>(&values[i]))
            sqlite3_bind_blob64(kept.get(), position, blob->bytes.data(), blob->bytes.size(), SQLITE_STATIC);
        else
            sqlite3_bind_null(kept.get(), position);
    }
    return kept.get();
}

Status Database::each(const std::string& sql, const Values& values, const std::function<void(const Row&)>& row) {
    return each_while(sql, values, [&](const Row& stored) {
        row(stored);
        return true;
    });
}

Status Database::each_while(const std::string& sql, const Values& values, const std::function<bool(const Row&)>& row) {
    Result<sqlite3_stmt*> statement = prepared(sql, values);
    if (!statement) return statement.error();
    int stepped = sqlite3_step(*statement);
    while (stepped == SQLITE_ROW && row(Row(*statement))) stepped = sqlite3_step(*statement);
    std::optional<Error> failed;
    if (stepped != SQLITE_DONE && stepped != SQLITE_ROW) failed = error("\"" + sql.substr(0, 60) + "\"");
    sqlite3_reset(*statement);
    sqlite3_clear_bindings(*statement);
    if (failed) return *failed;
    return Done{};
}

Status Database::run(const std::string& sql, const Values& values) {
    return each(sql, values, [](const Row&) {});
}

Result<std::int64_t> Database::integer(const std::string& sql, const Values& values) {
    std::int64_t number = 0;
    Status read = each(sql, values, [&](const Row& row) { number = row.integer(0); });
    if (!read) return read.error();
    return number;
}

Result<Transaction> Transaction::begin(Database& database, Kind kind) {
    Status begun = database.run(kind == Kind::write ? "BEGIN IMMEDIATE" : "BEGIN");
    if (!begun) return begun.error();
    return Transaction(database);
}

Transaction::~Transaction() {
    if (database_ && sqlite3_get_autocommit(database_->handle()) == 0)
        static_cast<void>(database_->run("ROLLBACK").ok());
}

Status Transaction::commit() {
    Status done = database_->run("COMMIT");
    if (done) database_ = nullptr;
    return done;
}

}  // namespace rtrain::state

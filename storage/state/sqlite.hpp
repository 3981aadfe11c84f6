// The few calls of SQLite that this folder needs: open, run, read rows. A statement is prepared once and kept. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace rtrain::state {

struct Null {};
struct Blob {
    std::string bytes;
};
using Value = std::variant<Null, std::int64_t, std::string, Blob>;
using Values = std::vector<Value>;

class Row {  // valid during the callback that receives it
  public:
    explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
    int size() const;
    bool null(int column) const;
    std::int64_t integer(int column) const;
    std::string text(int column) const;
    std::string blob(int column) const;
    Value value(int column) const;

  private:
    sqlite3_stmt* statement_;
};

class Database {
  public:
    enum class Mode { create, existing };
    static Result<Database> open(const std::string& path, Mode mode);

    Status run(const std::string& sql, const Values& values = {});
    Status each(const std::string& sql, const Values& values, const std::function<void(const Row&)>& row);
    // Like `each`, but stops when `row` returns false.
    Status each_while(const std::string& sql, const Values& values, const std::function<bool(const Row&)>& row);
    // Returns the integer in the first column of the only row.
    Result<std::int64_t> integer(const std::string& sql, const Values& values = {});
    bool last_run_changed_rows() const;
    // Lets closing leave the WAL as it is. For a process that reads while a head has the database open.
    void leave_wal_on_close();
    sqlite3* handle() const { return handle_.get(); }
    Error error(
        // Returns SQLite's newest error, with a code that distinguishes damage from a full disk.
        const std::string& doing) const;

  private:
    struct Close {
        void operator()(sqlite3* handle) const;
    };
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const;
    };
    Result<sqlite3_stmt*> prepared(const std::string& sql, const Values& values);

    std::string path_;
    std::unique_ptr<sqlite3, Close> handle_;
    std::map<std::string, std::unique_ptr<sqlite3_stmt, Finalize>> statements_;
};

// A transaction that is rolled back by its destructor unless it was committed.
class Transaction {
  public:
    enum class Kind { read, write };
    static Result<Transaction> begin(Database& database, Kind kind);
    Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
    ~Transaction();
    Status commit();

  private:
    explicit Transaction(Database& database) : database_(&database) {}
    Database* database_;
};

}  // namespace rtrain::state

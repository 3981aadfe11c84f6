// The head's durable state: records, the events that made them, and the tables beside the core (tokens, metrics,
// settings). SQLite: WAL, synchronous FULL, one writer. Each commit is one transaction.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "scheduler/controller.hpp"
#include "storage/state/audit.hpp"
#include "storage/state/codec/pages.hpp"
#include "storage/state/codec/text.hpp"

namespace rtrain::state {

struct Entry {  // one event and the records that it changed
    Time now;
    std::int64_t wall_ms = 0;
    Event event;
    std::vector<Record> records;
    std::string note;  // a sentence for people, empty if there is none
    std::optional<RunId> about_run;
    std::optional<NodeId> about_node;
};

struct EventRow {
    EventId id;
    std::int64_t wall_ms = 0;
    // type of the event: "RunSubmitted"; "Notice" or "WorkerStarts" for a row without an event
    std::string kind;
    std::string note;
    std::optional<RunId> about_run;
    std::optional<NodeId> about_node;
};

struct TokenRow {
    std::string id, secret_hash, role, user;                // role: admin user viewer metrics node
    std::int64_t created_wall_ms = 0, expires_wall_ms = 0;  // wall clock; expires: 0 for never
    std::int64_t uses_left = -1;                            // number of uses that are left; -1: no limit
    bool revoked = false;
};

struct MetricRow {  // one report of one attempt
    AttemptId attempt;
    std::uint64_t index = 0;  // number of the report in its attempt, ascending
    std::int64_t wall_ms = 0;
    // metrics of the ranks: {"0":{"loss":0.5},"1":{...}}, and "checkpoint" with its directory if the report had one
    std::string ranks_json;
    // Set when the row is stored: counts the reports of all attempts of the run, from 1. Pages are read by position.
    std::uint64_t position = 0;
    bool operator==(const MetricRow&) const = default;
};

struct Notice {  // a sentence for people about something that the core did not decide
    std::int64_t wall_ms = 0;
    std::string text;
    std::optional<RunId> about_run{};
    std::optional<NodeId> about_node{};
    std::string kind = "Notice";
};

struct Batch {  // the changes of one commit: all of them become durable, or none
    std::vector<Entry> entries;
    std::vector<Notice> notices;
    std::vector<MetricRow> metrics;  // a row is dropped if its attempt already has a row with this index
    // key and value, such as the number of the last news that these changes include
    std::map<std::string, std::string> settings;
    std::vector<TokenRow> tokens;  // changed tokens, such as a join token with one use less
    std::vector<AuditRow> audit;   // rows about the changes of this batch; the commit sets their numbers and hashes
};

// The growth of the rows beside the records by one commit, in bytes.
struct RowBytes {
    // bytes by run; `reports` is negative for a run whose rows were sealed
    std::map<RunId, std::int64_t> events, reports;
    std::map<std::string, std::int64_t> audit;  // key: the user; value: bytes
};
struct KeptRows {
    std::map<std::string, std::int64_t> events, audit;  // key: the user; events stay when their run is removed
};

// Thrown by the reading functions of SqliteJournal when SQLite cannot read. Only the request that needed the rows
// fails. If another program holds the database, the code is `unreachable`.
class ReadFailed : public std::runtime_error {
  public:
    explicit ReadFailed(Error why) : std::runtime_error(why.message), error(std::move(why)) {
        if (error.code == ErrorCode::conflict) error.code = ErrorCode::unreachable;
    }
    Error error;
};

class Journal {  // implemented by SQLite here and by a simulated disk in tests/sim
  public:
    virtual ~Journal() = default;
    // Commits all entries or none. Returns when they are on disk.
    virtual Status commit(const std::vector<Entry>& entries) = 0;
};

class SqliteJournal : public Journal {
  public:
    // Creates the file if it is absent. Fails if another process has it open (conflict), if a newer version wrote it
    // (conflict) or if it is damaged (the error names `rtrain head restore-backup`).
    static Result<std::unique_ptr<SqliteJournal>> open(const std::string& directory);
    // Replays the events. Returns a summary, or an error that names the first difference.
    static Result<std::string> verify(const std::string& directory);
    // Makes the same checks of a directory that the start of a head makes, and checks the segments of the audit. Does
    // not replay events. No head may have the directory open.
    static Status check(const std::string& directory);
    // Copies the database to a file. A head may have it open.
    static Status backup(const std::string& directory, const std::string& to_file);
    static Status restore_backup(const std::string& from_file, const std::string& directory);
    ~SqliteJournal() override;

    const Cluster& opened() const;  // Returns the state as it was read when the journal was opened.
    Status commit(const std::vector<Entry>& entries) override;
    // `written`: receives the growth of the tables in bytes
    Status commit(const Batch& batch, RowBytes* written = nullptr);
    // Sets a function that is called when the disk is full, from any thread that writes. If it returns true, it has
    // freed some space, and the change is tried again at once.
    void when_full(std::function<bool()> make_room);
    // Returns the bytes of all stored rows. `users` names the user of each run that has records; events name the other
    // users. The call reads every row, on a connection that delays no commit and no other reader.
    Result<KeptRows> kept_rows(const std::map<RunId, std::string>& users) const;
    Result<std::map<RunId, std::int64_t>> report_bytes() const;
    // Returns the free bytes inside the database's file, which are used before the file grows.
    std::int64_t unused_bytes() const;

    // The reading functions throw ReadFailed. Returns events that have a note, oldest first.
    std::vector<EventRow> events(EventId after, std::size_t limit, std::optional<RunId> run = {}) const;
    // Like `events`, on the connection of `metrics`, for answers that are made beside the loop.
    PageOf<EventRow> events_page(EventId after, PageBounds most, std::optional<RunId> run) const;
    // Returns the newest events, oldest first.
    std::vector<EventRow> last_events(PageBounds most, std::optional<RunId> run) const;
    EventId last_event() const;

    Status save_token(const TokenRow& token);
    std::vector<TokenRow> tokens() const;
    // Settings are pairs of a key and a value, for example the cluster's name or an acknowledged offset.
    Status save_setting(const std::string& key, const std::string& value);
    std::optional<std::string> setting(const std::string& key) const;
    // Returns the settings whose keys begin with `prefix`. The keys of the result are whole.
    std::map<std::string, std::string> settings(const std::string& prefix) const;
    Status erase_settings(const std::vector<std::string>& keys);
    // Returns durable rows, oldest first, on the connection of `metrics`.
    PageOf<AuditRow> audit(std::uint64_t after, PageBounds most) const;
    AuditEnd audit_end() const;
    // `kept`: number of newest rows that stay in the database; `segment`: number of older rows that become one file.
    struct AuditBounds {
        std::size_t kept = 100'000, segment = 20'000;
    };
    // Moves the oldest rows of the audit into one file of the data directory. Returns false if there are too few, true
    // if there may be more. Takes some hundred milliseconds, during which commits continue.
    Result<bool> archive_audit(AuditBounds most);
    // Reads a page of the audit in `directory`, oldest first. A head may have the database open.
    static Result<std::vector<AuditRow>> audit_of(const std::string& directory, std::uint64_t after, std::size_t limit);
    // Reads on a connection of its own, because that may take long. Must not be called on the loop's thread.
    PageOf<MetricRow> metrics(RunId run, std::uint64_t after_position, PageBounds most) const;
    std::optional<MetricRow> last_metrics(RunId run) const;
    void prune_events(std::int64_t before_wall_ms);

  private:
    SqliteJournal();
    struct Body;
    Status commit_once(const Batch& batch, RowBytes& written);
    template <class Work>
    Status with_room(const Work& work);
    std::unique_ptr<Body> body_;
};

}  // namespace rtrain::state

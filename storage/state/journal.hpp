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

#include "scheduler/controller.hpp"
#include "scheduler/model/result.hpp"
#include "storage/state/audit.hpp"
#include "storage/state/codec/pages.hpp"
#include "storage/state/codec/text.hpp"

namespace rtrain::state {

struct Entry {  // one event and what it changed
    Time now;
    std::int64_t wall_ms = 0;
    Event event;
    std::vector<Record> records;
    std::string note;  // for people
    std::optional<RunId> about_run;
    std::optional<NodeId> about_node;
};

struct EventRow {
    EventId id;
    std::int64_t wall_ms = 0;
    std::string kind;  // "RunSubmitted", ...; those that come from no event: "Notice", "WorkerStarts"
    std::string note;
    std::optional<RunId> about_run;
    std::optional<NodeId> about_node;
};

struct TokenRow {
    std::string id, secret_hash, role, user;                // role: admin user viewer metrics node
    std::int64_t created_wall_ms = 0, expires_wall_ms = 0;  // 0: never
    std::int64_t uses_left = -1;                            // -1: without limit
    bool revoked = false;
};

struct MetricRow {  // one report of one attempt
    AttemptId attempt;
    std::uint64_t index = 0;  // only grows within an attempt
    std::int64_t wall_ms = 0;
    std::string ranks_json;      // {"0":{"loss":0.5},"1":{...}}, and "checkpoint", its directory, where it had one
    std::uint64_t position = 0;  // given when stored: from 1, grows over all attempts of the run; pages go by it
    bool operator==(const MetricRow&) const = default;
};

struct Notice {  // what people are told and the core did not decide
    std::int64_t wall_ms = 0;
    std::string text;
    std::optional<RunId> about_run{};
    std::optional<NodeId> about_node{};
    std::string kind = "Notice";
};

struct Batch {  // what came together: all of it becomes durable, or nothing
    std::vector<Entry> entries;
    std::vector<Notice> notices;
    std::vector<MetricRow> metrics;               // repeats of an attempt's index are dropped
    std::map<std::string, std::string> settings;  // such as the number of the last news that the rest came from
    std::vector<TokenRow> tokens;                 // such as a join token with a use less
    std::vector<AuditRow> audit;                  // of the changes in it; numbered and chained here
};

// By how many bytes a commit made the rows beside the records more.
struct RowBytes {
    std::map<RunId, std::int64_t> events, reports;  // reports: below 0 where some were sealed
    std::map<std::string, std::int64_t> audit;      // by user
};
struct KeptRows {
    std::map<std::string, std::int64_t> events, audit;  // by user; events outlive their runs
};

// What the reading functions of SqliteJournal throw when SQLite cannot read: the request that needed the rows fails
// with it, and nothing else does. A database that is held by another program is `unreachable`.
class ReadFailed : public std::runtime_error {
  public:
    explicit ReadFailed(Error why) : std::runtime_error(why.message), error(std::move(why)) {
        if (error.code == ErrorCode::conflict) error.code = ErrorCode::unreachable;
    }
    Error error;
};

class Journal {  // the interface has two implementations: SQLite here, a simulated disk in tests/sim
  public:
    virtual ~Journal() = default;
    virtual Status commit(const std::vector<Entry>& entries) = 0;  // all or none; returns once on disk
};

class SqliteJournal : public Journal {
  public:
    // Creates the file when absent. Refuses: another process has it open (conflict), a newer version's (conflict),
    // damage (damaged; names `rtrain head restore-backup`).
    static Result<std::unique_ptr<SqliteJournal>> open(const std::string& directory);
    static Result<std::string> verify(const std::string& directory);  // replays; returns a summary or what differs
    static Status backup(const std::string& directory, const std::string& to_file);  // online
    static Status restore_backup(const std::string& from_file, const std::string& directory);
    ~SqliteJournal() override;

    const Cluster& opened() const;  // as read at open
    Status commit(const std::vector<Entry>& entries) override;
    Status commit(const Batch& batch, RowBytes* written = nullptr);  // written: by how much the rows grew
    // Called where the disk is full, from any thread that writes: returns true where it has made some room, and the
    // change is tried again at once.
    void when_full(std::function<bool()> make_room);
    // The bytes of all rows that are there. `users`: of the runs that have records; events name the others'. They look
    // at every row: nobody who commits or reads waits for them.
    Result<KeptRows> kept_rows(const std::map<RunId, std::string>& users) const;
    Result<std::map<RunId, std::int64_t>> report_bytes() const;
    std::int64_t unused_bytes() const;  // of the database's file: they take rows before it grows

    // Reading throws ReadFailed. Events: oldest first; only those with a note.
    std::vector<EventRow> events(EventId after, std::size_t limit, std::optional<RunId> run = {}) const;
    // The same by the connection of `metrics`, for answers made beside the loop.
    PageOf<EventRow> events_page(EventId after, PageBounds most, std::optional<RunId> run) const;
    std::vector<EventRow> last_events(PageBounds most, std::optional<RunId> run) const;  // oldest first too
    EventId last_event() const;

    Status save_token(const TokenRow& token);
    std::vector<TokenRow> tokens() const;
    Status save_setting(const std::string& key, const std::string& value);  // cluster name, acknowledged offsets, ...
    std::optional<std::string> setting(const std::string& key) const;
    std::map<std::string, std::string> settings(const std::string& prefix) const;  // by whole key
    Status erase_settings(const std::vector<std::string>& keys);
    PageOf<AuditRow> audit(std::uint64_t after, PageBounds most) const;  // oldest first; durable ones; as `metrics`
    AuditEnd audit_end() const;
    // How many of the newest rows stay in the database, and how many older ones become one file.
    struct AuditBounds {
        std::size_t kept = 100'000, segment = 20'000;
    };
    // Moves the oldest rows of the audit into one file of the data directory. Returns false if there are too few; true:
    // there may be more. Takes some hundred milliseconds, while commits go on.
    Result<bool> archive_audit(AuditBounds most);
    // Reads a page of the audit in `directory`, oldest first. A head may have the database open.
    static Result<std::vector<AuditRow>> audit_of(const std::string& directory, std::uint64_t after, std::size_t limit);
    // By a connection of its own: it may take long, and is no work for the loop.
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

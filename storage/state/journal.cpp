// Opening, committing and reading the journal. A commit is one transaction for all its entries; once SQLite's COMMIT
// has returned (WAL, synchronous FULL) it survives a loss of power.
#include "storage/state/journal.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "storage/state/body.hpp"
#include "storage/state/program.hpp"
#include "storage/state/schema.hpp"

namespace rtrain::state {
namespace {

// Returns an error if the main file is gone or empty although its WAL or the mark in the lock file is there. The
// database is lost then, and a fresh start would forget all runs.
Status check_not_lost(const std::string& path, const DirectoryLock& lock) {
    std::error_code none;
    auto size = [&](const std::string& file) {
        auto bytes = std::filesystem::file_size(file, none);
        return none ? 0 : bytes;
    };
    bool expected = lock.database_was_made() || size(path + "-wal") > 0;
    if (size(path) > 0 || !expected) return Done{};
    return Error{
        ErrorCode::damaged, path + " is missing or empty, though this directory had a state database",
        "rtrain head restore-backup FILE (or remove " + path + "-wal and the file state.lock beside it to begin anew)"};
}

Status prepare(Database& database, DirectoryLock& lock) {
    if (Status set = configure(database); !set) return set.error();
    Result<bool> fresh = is_empty(database);
    if (!fresh) return fresh.error();
    if (*fresh && lock.database_was_made())
        return Error{ErrorCode::damaged, "the state database holds no tables, though this directory had some",
                     "rtrain head restore-backup FILE"};
    if (*fresh)
        if (Status status = create_tables(database); !status) return status.error();
    if (Status whole = check_whole(database); !whole) return whole.error();
    if (Status renewed = bring_up_to_date(database); !renewed) return renewed.error();
    return lock.database_is_made();
}

// Begins the replay anew, from the present records, if another version of the program made the events: only the same
// program repeats its decisions.
Status renew_snapshot(Database& database, std::uint64_t last_event) {
    Result<std::string> program = read_setting(database, snapshot_program_key);
    if (!program) return program.error();
    if (*program == state::program()) return Done{};
    Result<Transaction> transaction = Transaction::begin(database, Transaction::Kind::write);
    if (!transaction) return transaction.error();
    if (Status taken = take_snapshot(database, last_event); !taken) return taken.error();
    return transaction->commit();
}

Error at_directory(Error error, const std::string& directory) {
    if (error.message.find(directory) == std::string::npos) error.message = directory + ": " + error.message;
    return error;
}

Value run_or_null(std::optional<RunId> run) {
    return run ? Value(static_cast<std::int64_t>(run->value)) : Value(Null{});
}
Value node_or_null(const std::optional<NodeId>& node) { return node ? Value(node->value) : Value(Null{}); }

constexpr std::int64_t event_row_alone = 96;  // bytes of an event's row, beside its texts
std::int64_t event_row_bytes(const std::string& json, const std::string& note) {
    return event_row_alone + static_cast<std::int64_t>(json.size() + note.size());
}

Status insert_entry(Database& database, std::uint64_t id, const Entry& entry, std::string event, std::int64_t saved) {
    return insert_row(database, "events",
                      {static_cast<std::int64_t>(id), entry.now.ms, entry.wall_ms, event_kind(entry.event), entry.note,
                       run_or_null(entry.about_run), node_or_null(entry.about_node), std::move(event), saved});
}

Status insert_notice(Database& database, std::uint64_t id, const Notice& notice) {
    return insert_row(database, "events",
                      {static_cast<std::int64_t>(id), std::int64_t{0}, notice.wall_ms, notice.kind, notice.text,
                       run_or_null(notice.about_run), node_or_null(notice.about_node), Null{}, std::int64_t{0}});
}

void count_event(RowBytes& grown, std::optional<RunId> run, std::int64_t bytes) {
    if (run) grown.events[*run] += bytes;
}

void count_audit(RowBytes& grown, const std::vector<AuditRow>& rows) {
    for (const AuditRow& row : rows) grown.audit[row.user] += audit_row_bytes(row);
}

Status insert_notices(Database& database, std::uint64_t& id, const std::vector<Notice>& notices, RowBytes& grown) {
    for (const Notice& notice : notices) {
        count_event(grown, notice.about_run, event_row_bytes("", notice.text));
        if (Status written = insert_notice(database, ++id, notice); !written) return written;
    }
    return Done{};
}

// Returns copies of the marks of the rows' runs. They replace `known` only if the transaction succeeds.
MetricMarks known_marks(const MetricMarks& known, const std::vector<MetricRow>& rows) {
    MetricMarks marks;
    for (const MetricRow& row : rows)
        if (const auto entry = known.find(row.attempt.run); entry != known.end()) marks.insert(*entry);
    return marks;
}

// Returns the runs that these entries erase, since their metrics are removed too.
std::vector<RunId> erased_runs(const std::vector<Entry>& entries) {
    std::vector<RunId> gone;
    for (const Entry& entry : entries)
        for (const Record& record : entry.records)
            if (const EraseRun* erasure = std::get_if<EraseRun>(&record)) gone.push_back(erasure->id);
    return gone;
}

EventRow event_row(const Row& row) {
    EventRow event{.id = {static_cast<std::uint64_t>(row.integer(0))},
                   .wall_ms = row.integer(1),
                   .kind = row.text(2),
                   .note = row.text(3),
                   .about_run = std::nullopt,
                   .about_node = std::nullopt};
    if (!row.null(4)) event.about_run = RunId{static_cast<std::uint64_t>(row.integer(4))};
    if (!row.null(5)) event.about_node = NodeId{row.text(5)};
    return event;
}

// Reads the events with a note after `from` ("id > ?") or before it ("id < ?"), the nearest first.
Result<PageOf<EventRow>> read_events(Database& database, const std::string& side, EventId from, PageBounds most,
                                     std::optional<RunId> run) {
    std::string sql = "SELECT id, wall_ms, kind, note, run, node FROM events WHERE " + side + " AND note != ''";
    Values values = {static_cast<std::int64_t>(from.value)};
    if (run) {
        sql += " AND run = ?";
        values.emplace_back(static_cast<std::int64_t>(run->value));
    }
    Filling<EventRow> to(most);
    Status read = database.each_while(sql + (side == "id < ?" ? " ORDER BY id DESC" : " ORDER BY id"), values,
                                      [&](const Row& stored) {
                                          EventRow row = event_row(stored);
                                          const std::size_t bytes = row.note.size();
                                          return to.add(std::move(row), bytes);
                                      });
    if (!read) return read.error();
    return std::move(to.page);
}

}  // namespace

Status take_snapshot(Database& database, std::uint64_t after_event) {
    for (const char* copy : {"DELETE FROM snapshot", "INSERT INTO snapshot SELECT * FROM records"})
        if (Status copied = database.run(copy); !copied) return copied.error();
    if (Status set = write_setting(database, snapshot_event_key, std::to_string(after_event)); !set) return set.error();
    return write_setting(database, snapshot_program_key, program());
}

SqliteJournal::SqliteJournal() = default;
SqliteJournal::~SqliteJournal() = default;

Result<std::unique_ptr<SqliteJournal>> SqliteJournal::open(const std::string& directory) {
    Result<DirectoryLock> lock = DirectoryLock::take(directory);
    if (!lock) return lock.error();
    std::string path = directory + "/" + database_name;
    if (Status there = check_not_lost(path, *lock); !there) return there.error();
    Result<Database> database = Database::open(path, Database::Mode::create);
    if (!database) return at_directory(database.error(), directory);
    chmod(path.c_str(), 0600);  // The mode is set before SQLite makes a WAL, which gets the same permissions.
    if (Status ready = prepare(*database, *lock); !ready) return at_directory(ready.error(), directory);
    Result<Loaded> loaded = load_records(*database, "records");
    if (!loaded) return at_directory(loaded.error(), directory);
    Result<std::int64_t> last = database->integer("SELECT coalesce(max(id), 0) FROM events");
    if (!last) return at_directory(last.error(), directory);
    Result<AuditEnd> audit_end = last_audit(*database);
    if (!audit_end) return at_directory(audit_end.error(), directory);
    Status renewed = renew_snapshot(*database, static_cast<std::uint64_t>(*last));
    if (!renewed) return at_directory(renewed.error(), directory);

    Result<Database> reader = Database::open(path, Database::Mode::existing);
    if (!reader) return at_directory(reader.error(), directory);

    Result<Database> pages = Database::open(path, Database::Mode::existing);
    if (!pages) return at_directory(pages.error(), directory);

    auto journal = std::unique_ptr<SqliteJournal>(new SqliteJournal());
    journal->body_ = std::make_unique<Body>(std::move(*lock), directory, std::move(*database), std::move(*reader),
                                            std::move(*pages));
    journal->body_->path = path;
    journal->body_->opened = std::move(loaded->cluster);
    journal->body_->kept = std::move(loaded->kept);
    journal->body_->last_event = static_cast<std::uint64_t>(*last);
    journal->body_->audit_end = std::move(*audit_end);
    return journal;
}

const Cluster& SqliteJournal::opened() const { return body_->opened; }

Status SqliteJournal::commit(const std::vector<Entry>& entries) {
    return commit(Batch{.entries = entries, .notices = {}, .metrics = {}, .settings = {}, .tokens = {}, .audit = {}});
}

Status SqliteJournal::commit(const Batch& batch, RowBytes* written) {
    RowBytes grown;
    Status done = with_room([&] {
        grown = {};
        Status tried = commit_once(batch, grown);
        if (!tried) body_->kept.take_back();
        body_->kept.joined.clear();
        return tried;
    });
    if (done && written) *written = std::move(grown);
    return done;
}

static Status save_beside_records(Database& database, const Batch& batch) {
    for (const auto& [key, value] : batch.settings)
        if (Status saved = write_setting(database, setting_prefix + key, value); !saved) return saved.error();
    for (const TokenRow& token : batch.tokens)
        if (Status saved = write_token(database, token); !saved) return saved.error();
    return Done{};
}

Status SqliteJournal::commit_once(const Batch& batch, RowBytes& grown) {
    Result<Transaction> transaction = Transaction::begin(body_->database, Transaction::Kind::write);
    if (!transaction) return transaction.error();
    std::uint64_t id = body_->last_event;
    std::vector<Written> records;
    for (const Entry& entry : batch.entries) {
        for (const Record& record : entry.records) records.push_back({&record, encode(record)});
        const std::int64_t saved = checksum_of(std::span(records).last(entry.records.size()));
        std::string event = encode(entry.event);
        count_event(grown, entry.about_run, event_row_bytes(event, entry.note));
        Status written = insert_entry(body_->database, ++id, entry, std::move(event), saved);
        if (!written) return written.error();
    }
    if (Status saved = save_records(body_->database, records, body_->kept); !saved) return saved.error();
    if (Status written = insert_notices(body_->database, id, batch.notices, grown); !written) return written.error();
    if (Status saved = save_beside_records(body_->database, batch); !saved) return saved.error();
    AuditEnd audit_end = body_->audit_end;
    if (Status added = add_audit(body_->database, audit_end, batch.audit); !added) return added.error();
    count_audit(grown, batch.audit);
    MetricMarks marks = known_marks(body_->metric_marks, batch.metrics);
    if (Status added = add_metrics(body_->database, marks, batch.metrics, grown.reports); !added) return added.error();
    const std::vector<RunId> gone = erased_runs(batch.entries);
    for (const RunId run : gone)
        if (Status erased = erase_metrics(body_->database, run); !erased) return erased.error();
    if (Status done = transaction->commit(); !done) return done.error();
    body_->last_event = id;
    {
        std::lock_guard end_held(body_->end_mutex);
        body_->audit_end = std::move(audit_end);
    }
    for (auto& [run, mark] : marks) body_->metric_marks[run] = std::move(mark);
    for (const RunId run : gone) body_->metric_marks.erase(run);
    return Done{};
}

void SqliteJournal::when_full(std::function<bool()> make_room) {
    std::lock_guard held(body_->mutex);
    body_->make_room = std::move(make_room);
}

Result<KeptRows> SqliteJournal::kept_rows(const std::map<RunId, std::string>& users) const {
    auto database = body_->beside();
    if (!database) return database.error();
    KeptRows kept;
    std::map<RunId, std::int64_t> gone;
    Status read = database->each(
        "SELECT run, sum(length(CAST(note AS BLOB)) + coalesce(length(CAST(json AS BLOB)), 0) + ?) FROM events WHERE "
        "run IS NOT NULL GROUP BY run",
        {event_row_alone}, [&](const Row& row) {
            const RunId run{static_cast<std::uint64_t>(row.integer(0))};
            const auto user = users.find(run);
            (user == users.end() ? gone[run] : kept.events[user->second]) += row.integer(1);
        });
    if (!read) return read.error();
    for (const auto& [run, size] : gone) {
        read = database->each("SELECT json FROM events WHERE run=? AND kind='RunSubmitted'",
                              {static_cast<std::int64_t>(run.value)}, [&, bytes = size](const Row& row) {
                                  const auto event = decode_event(row.text(0));
                                  const auto* submitted = event ? std::get_if<RunSubmitted>(&*event) : nullptr;
                                  if (submitted) kept.events[submitted->user] += bytes;
                              });
        if (!read) return read.error();
    }
    auto audit = audit_bytes(*database);
    if (!audit) return audit.error();
    kept.audit = std::move(*audit);
    return kept;
}

Result<std::map<RunId, std::int64_t>> SqliteJournal::report_bytes() const {
    auto database = body_->beside();
    if (!database) return database.error();
    return metric_bytes(*database);
}

std::int64_t SqliteJournal::unused_bytes() const {
    std::lock_guard held(body_->reading);
    const auto pages = body_->reader.integer("PRAGMA freelist_count"), size = body_->reader.integer("PRAGMA page_size");
    return pages && size ? *pages * *size : 0;
}

std::vector<EventRow> SqliteJournal::events(EventId after, std::size_t limit, std::optional<RunId> run) const {
    std::lock_guard held(body_->reading);
    auto page = read_events(body_->reader, "id > ?", after, {.rows = limit}, run);
    if (!page) throw ReadFailed(page.error());
    return std::move(page->rows);
}

PageOf<EventRow> SqliteJournal::events_page(EventId after, PageBounds most, std::optional<RunId> run) const {
    std::lock_guard held(body_->paging);
    auto page = read_events(body_->pages, "id > ?", after, most, run);
    if (!page) throw ReadFailed(page.error());
    return std::move(*page);
}

std::vector<EventRow> SqliteJournal::last_events(PageBounds most, std::optional<RunId> run) const {
    std::lock_guard held(body_->paging);
    auto page = read_events(body_->pages, "id < ?", EventId{std::numeric_limits<std::int64_t>::max()}, most, run);
    if (!page) throw ReadFailed(page.error());
    std::reverse(page->rows.begin(), page->rows.end());
    return std::move(page->rows);
}

EventId SqliteJournal::last_event() const {
    std::lock_guard held(body_->mutex);
    return {body_->last_event};
}

// Removes old events. The events that remain before the snapshot can be read, but no longer replayed: the snapshot
// replaces them.
void SqliteJournal::prune_events(std::int64_t before_wall_ms) {
    std::lock_guard held(body_->mutex);
    auto prune = [&]() -> Status {
        Database& database = body_->database;
        Result<Transaction> transaction = Transaction::begin(database, Transaction::Kind::write);
        if (!transaction) return transaction.error();
        Result<std::int64_t> old = database.integer("SELECT EXISTS(SELECT 1 FROM events WHERE wall_ms < ? AND id < ?)",
                                                    {before_wall_ms, static_cast<std::int64_t>(body_->last_event)});
        if (!old) return old.error();
        if (*old == 0) return Done{};
        if (Status taken = take_snapshot(database, body_->last_event); !taken) return taken.error();
        // The newest event is kept, so that event numbers continue after a restart.
        Status erased = database.run("DELETE FROM events WHERE wall_ms < ? AND id < ?",
                                     {before_wall_ms, static_cast<std::int64_t>(body_->last_event)});
        if (!erased) return erased.error();
        return transaction->commit();
    };
    if (Status pruned = prune(); !pruned)
        std::fprintf(stderr, "rtrain: old events stay for now: %s\n", pruned.error().message.c_str());
}

}  // namespace rtrain::state

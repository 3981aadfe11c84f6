// `head verify` runs the events since the snapshot through `decide` again. The result must equal the stored records,
// byte for byte. It reads one consistent view, so that it may run beside a head.
#include <filesystem>

#include "storage/state/body.hpp"
#include "storage/state/program.hpp"
#include "storage/state/schema.hpp"

namespace rtrain::state {
namespace {

struct Replay {
    Cluster cluster;
    std::uint64_t from_event = 0, last_event = 0, events = 0;
    std::string first_difference;  // number of the first event whose records differ; empty: none
};

Result<Replay> begin_replay(Database& database) {
    Result<std::string> program = read_setting(database, snapshot_program_key);
    if (!program) return program.error();
    if (*program != state::program())
        return Error{ErrorCode::conflict,
                     "the events were made by rtrain " + *program + ", and this is " + state::program() +
                         ": a replay would prove nothing",
                     "start the head with this rtrain once, which takes a new snapshot, and verify later"};
    Result<std::int64_t> version = database.integer("PRAGMA user_version");
    if (!version) return version.error();
    if (*version != schema_version)
        return Error{ErrorCode::conflict,
                     "the events were made by an earlier build of rtrain " RTRAIN_VERSION
                     " (state database of version " +
                         std::to_string(*version) + "): a replay would prove nothing",
                     "start the head with this rtrain once, which takes a new snapshot, and verify later"};
    Result<std::string> event = read_setting(database, snapshot_event_key);
    if (!event) return event.error();
    Result<Loaded> snapshot = load_records(database, "snapshot");
    if (!snapshot) return snapshot.error();
    Replay replay;
    replay.cluster = std::move(snapshot->cluster);
    replay.from_event = replay.last_event = std::strtoull(event->c_str(), nullptr, 10);
    return replay;
}

Status replay_events(Database& database, Replay& replay) {
    std::optional<Error> wrong;
    Status read = database.each(
        "SELECT id, now_ms, kind, json, saved FROM events WHERE id > ? AND json IS NOT NULL ORDER BY id",
        {static_cast<std::int64_t>(replay.from_event)}, [&](const Row& row) {
            if (wrong) return;
            Result<Event> event = decode_event(row.text(3));
            if (!event) {
                wrong = event.error();
                return;
            }
            Decision decision = decide(replay.cluster, Time{row.integer(1)}, *event);
            ++replay.events;
            replay.last_event = static_cast<std::uint64_t>(row.integer(0));
            if (replay.first_difference.empty() && checksum_of(decision.save) != row.integer(4))
                replay.first_difference = "event " + std::to_string(row.integer(0)) + " (" + row.text(2) + ")";
        });
    if (!read) return read.error();
    if (wrong) return *wrong;
    return Done{};
}

std::string name_of(const RowKey& key) { return key.second.empty() ? key.first : key.first + " " + key.second; }

// Returns the names of records that differ: the first few, then an ellipsis.
std::string differences(const std::map<RowKey, std::string>& stored, const std::map<RowKey, std::string>& replayed) {
    std::vector<std::string> names;
    for (const auto& [key, text] : stored) {
        auto other = replayed.find(key);
        if (other == replayed.end())
            names.push_back(name_of(key) + " (not made by the replay)");
        else if (other->second != text)
            names.push_back(name_of(key) + "\n  stored:   " + text + "\n  replayed: " + other->second);
    }
    for (const auto& [key, text] : replayed)
        if (!stored.contains(key)) names.push_back(name_of(key) + " (made only by the replay)");
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < 5; ++i) text += "\n" + names[i];
    if (names.size() > 5) text += "\n... and " + std::to_string(names.size() - 5) + " more";
    return text;
}

Result<std::string> verify_database(Database& database) {
    Result<Transaction> view = Transaction::begin(database, Transaction::Kind::read);
    if (!view) return view.error();
    if (Status whole = check_whole(database); !whole) return whole.error();
    Result<Loaded> stored = load_records(database, "records");
    if (!stored) return stored.error();
    Result<Replay> replay = begin_replay(database);
    if (!replay) return replay.error();
    // The table is there, because begin_replay refuses databases of earlier versions.
    Result<AuditEnd> audit = check_audit(database);
    if (!audit) return audit.error();
    // The cluster's id is in no event, because the head makes it before the first event.
    if (replay->cluster.meta.cluster_id.empty()) replay->cluster.meta.cluster_id = stored->cluster.meta.cluster_id;
    if (Status replayed = replay_events(database, *replay); !replayed) return replayed.error();
    std::string range = std::to_string(replay->events) + " events after number " + std::to_string(replay->from_event);
    std::map<RowKey, std::string> rows = as_rows(stored->cluster);
    std::string differ = differences(rows, as_rows(replay->cluster));
    if (!differ.empty() || !replay->first_difference.empty())
        return Error{ErrorCode::damaged,
                     "replaying " + range + " does not give the stored records; first at " +
                         (replay->first_difference.empty() ? "no single event" : replay->first_difference) + differ,
                     "keep a copy of the directory and report it as a bug; the stored records are what counts"};
    return range + " replayed: " + std::to_string(rows.size()) + " records are the same, byte for byte; " +
           std::to_string(audit->sequence) + " rows of the audit, each with the hash of the row before it";
}

}  // namespace

Result<std::string> SqliteJournal::verify(const std::string& directory) {
    std::string path = directory + "/" + database_name;
    if (!std::filesystem::exists(path))
        return Error{ErrorCode::not_found, path + " does not exist", "name the head's data directory with --data"};
    Result<Database> database = Database::open(path, Database::Mode::existing);
    if (!database) return database.error();
    database->leave_wal_on_close();  // closing the database leaves its files as they are
    Result<AuditEnd> archived = archived_audit(*database);
    if (!archived) return archived.error();
    Result<std::string> verified = verify_database(*database);
    if (!verified) return verified;
    if (Status whole = check_segments(audit_folder(directory), *archived); !whole) return whole.error();
    return verified;
}

Result<std::vector<AuditRow>> SqliteJournal::audit_of(const std::string& directory, std::uint64_t after,
                                                      std::size_t limit) {
    const std::string path = directory + "/" + database_name;
    if (!std::filesystem::exists(path))
        return Error{ErrorCode::not_found, path + " does not exist", "name the head's data directory with --data"};
    Result<Database> database = Database::open(path, Database::Mode::existing);
    if (!database) return database.error();
    database->leave_wal_on_close();
    Result<std::int64_t> there = database->integer("SELECT count(*) FROM sqlite_schema WHERE name='audit'");
    if (!there) return there.error();
    if (*there == 0) return std::vector<AuditRow>{};  // An earlier version, which kept no audit, made this database.
    // One transaction is used for all reads, because rows may move into segments in between.
    Result<Transaction> one_view = Transaction::begin(*database, Transaction::Kind::read);
    if (!one_view) return one_view.error();
    auto page = read_whole_audit(*database, audit_folder(directory), after, {.rows = limit, .bytes = ~std::size_t{0}});
    if (!page) return page.error();
    return std::move(page->rows);
}

}  // namespace rtrain::state

// The members of a SqliteJournal: one connection that writes and two that read, so that no reader waits for a commit.
// Each connection has a mutex.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "storage/state/audit_table.hpp"
#include "storage/state/journal.hpp"
#include "storage/state/lock.hpp"
#include "storage/state/metrics_table.hpp"
#include "storage/state/record_rows.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::state {

struct SqliteJournal::Body {
    std::string path;
    DirectoryLock lock;
    std::string directory;
    Database database;  // declared after the lock, so that it is destroyed before the lock is released
    Database reader;
    std::mutex reading;
    Database pages;  // connection for long reads beside the loop, so that the loop never waits for them
    std::mutex paging;
    Cluster opened;
    Kept kept;
    std::uint64_t last_event = 0;
    MetricMarks metric_marks;
    std::mutex mutex;
    std::function<bool()> make_room = [] { return false; };  // Called when the disk is full.
    AuditEnd audit_end;  // changed only while the mutexes of the writer and of the audit's end are held
    std::mutex end_mutex;

    // Opens another connection, for reads that take long.
    Result<Database> beside() const {
        auto opened_beside = Database::open(path, Database::Mode::existing);
        if (opened_beside) opened_beside->leave_wal_on_close();
        return opened_beside;
    }
    Body(DirectoryLock lock_taken, std::string of_directory, Database opened_database, Database second, Database third)
        : lock(std::move(lock_taken)),
          directory(std::move(of_directory)),
          database(std::move(opened_database)),
          reader(std::move(second)),
          pages(std::move(third)) {}
};

// Calls `work` with the journal's mutex held. If the disk is full and `make_room` returns true, calls `work` again.
template <class Work>
Status SqliteJournal::with_room(const Work& work) {
    std::lock_guard held(body_->mutex);
    Status done = work();
    while (!done && done.error().code == ErrorCode::full && body_->make_room()) done = work();
    return done;
}

// Copies the records into the snapshot, from which the next replay begins. Requires an open transaction.
Status take_snapshot(Database& database, std::uint64_t after_event);

Status write_token(Database& database, const TokenRow& token);

inline constexpr const char* snapshot_event_key = "snapshot_event";
inline constexpr const char* snapshot_program_key = "snapshot_program";

}  // namespace rtrain::state

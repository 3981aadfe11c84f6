// What a SqliteJournal holds: a connection that writes, and two that read, so that nobody who reads waits for a
// commit. A mutex each.
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
    DirectoryLock lock;
    Database database;  // destroyed before the lock is let go
    Database reader;
    std::mutex reading;
    Database pages;  // reads long answers beside the loop, so that the loop never waits for one
    std::mutex paging;
    Cluster opened;
    Kept kept;
    std::uint64_t last_event = 0;
    MetricMarks metric_marks;
    std::mutex mutex;
    AuditEnd audit_end;  // changed with both mutexes held
    std::mutex end_mutex;

    Body(DirectoryLock lock_taken, Database opened_database, Database second, Database third)
        : lock(std::move(lock_taken)),
          database(std::move(opened_database)),
          reader(std::move(second)),
          pages(std::move(third)) {}
};

// Copies the records as where the next replay begins; inside of the caller's transaction.
Status take_snapshot(Database& database, std::uint64_t after_event);

Status write_token(Database& database, const TokenRow& token);

inline constexpr const char* setting_prefix = "head.";
inline constexpr const char* snapshot_event_key = "snapshot_event";
inline constexpr const char* snapshot_program_key = "snapshot_program";

}  // namespace rtrain::state

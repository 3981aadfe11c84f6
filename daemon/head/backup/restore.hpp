// Brings a head's directory back from a backup.
#pragma once

#include <string>

#include "daemon/head/backup/archive.hpp"

namespace rtrain::head {

struct RestoreWish {
    std::string from;      // a backup, or a directory of incremental ones (the newest is used)
    std::string data_dir;  // must be missing or empty
    std::string secret;
};
struct RestoreDone {
    std::string file;
    BackupFacts facts;
    BackupTotals totals;
};
// Reads the whole backup, and writes nothing.
Result<RestoreDone> check_backup(const RestoreWish& wish);
// Checks the backup, then writes a new directory beside the target. It replaces the target once all of it is intact.
Result<RestoreDone> restore_head(const RestoreWish& wish);

}  // namespace rtrain::head

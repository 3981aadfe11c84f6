// Restores a head's directory from a backup.
#pragma once

#include <string>

#include "daemon/head/backup/archive.hpp"

namespace rtrain::head {

struct RestoreWish {
    std::string from;      // path of a backup, or of a directory of incremental backups, of which the newest is used
    std::string data_dir;  // the directory to write; it must be missing or empty
    std::string secret;
};
struct RestoreDone {
    std::string file;
    BackupFacts facts;
    BackupTotals totals;
};
// Reads the whole backup, and writes nothing.
Result<RestoreDone> check_backup(const RestoreWish& wish);
// Checks the backup, then writes a new directory beside the target. After all of it was found intact, the new directory
// replaces the target.
Result<RestoreDone> restore_head(const RestoreWish& wish);

}  // namespace rtrain::head

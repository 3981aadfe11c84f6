// Brings a head's directory back from a backup.
#pragma once

#include <string>

#include "daemon/head/backup/archive.hpp"

namespace rtrain::head {

struct RestoreWish {
    std::string from;      // a backup, or a directory of incremental ones: the newest
    std::string data_dir;  // must not exist, or be empty
    std::string secret;
};
struct RestoreDone {
    std::string file;
    BackupFacts facts;
    BackupTotals totals;
};
// Reads the whole backup, and writes nothing.
Result<RestoreDone> check_backup(const RestoreWish& wish);
// Checks, then writes a new directory beside the target, which takes the target's place once all of it is sound.
Result<RestoreDone> restore_head(const RestoreWish& wish);

}  // namespace rtrain::head

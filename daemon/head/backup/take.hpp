// Makes a backup of a head, while it works or without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/head/backup/archive.hpp"
#include "daemon/head/backup/contents.hpp"

namespace rtrain::head {

enum class ClusterFiles { with, without };  // the files of cluster://

struct BackupWish {
    std::string data_dir;
    std::string storage_root{};  // empty: that of the head's last start
    std::string to;              // a file; for an incremental backup a directory
    std::string secret;          // a passphrase, or the content of a key file
    std::string address{};       // address of the head, for messages
    RunLogs logs = RunLogs::with;
    ClusterFiles files = ClusterFiles::without;
    bool incremental = false;
    std::size_t keep = 0;  // for incremental backups: number of newest backups to keep; 0: all
    bool replace = false;  // an older backup at `to` may be replaced
};
struct BackupDone {
    std::string file;
    BackupTotals totals;
    std::vector<std::string> left_out;  // for people
};
Result<BackupDone> take_backup(const BackupWish& wish);

// Fails for a passphrase that is too short to keep anything secret.
Status check_secret(const std::string& secret);

}  // namespace rtrain::head

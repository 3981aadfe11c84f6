// Makes a backup of a head, whether the head runs or not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/head/backup/archive.hpp"
#include "daemon/head/backup/contents.hpp"

namespace rtrain::head {

enum class ClusterFiles { with, without };  // whether the backup contains the files of cluster://

struct BackupWish {
    std::string data_dir;
    std::string storage_root{};  // directory of cluster://; empty: the one with which the head was last started
    std::string to;              // path of the backup; of an incremental backup: its directory
    std::string secret;          // a passphrase, or the content of a key file
    std::string address{};       // address of the head, for messages
    RunLogs logs = RunLogs::with;
    ClusterFiles files = ClusterFiles::without;
    bool incremental = false;
    std::size_t keep = 0;  // number of newest backups to keep, for incremental backups; 0: all
    bool replace = false;  // true: an older backup at `to` may be replaced
};
struct BackupDone {
    std::string file;
    BackupTotals totals;
    std::vector<std::string> left_out;  // one message for people about each file that was left out
};
Result<BackupDone> take_backup(const BackupWish& wish);

// Fails for a passphrase that is too short to keep anything secret.
Status check_secret(const std::string& secret);

}  // namespace rtrain::head

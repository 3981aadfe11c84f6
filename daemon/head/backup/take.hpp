// Makes a backup of a head, while it works or without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/head/backup/archive.hpp"
#include "daemon/head/backup/contents.hpp"

namespace rtrain::head {

enum class ClusterFiles { with, without };  // those of cluster://

struct BackupWish {
    std::string data_dir;
    std::string storage_root{};  // empty: the one of the head's last start
    std::string to;              // a file; an incremental backup: a directory
    std::string secret;          // a passphrase, or the content of a key file
    std::string address{};       // where the head serves, for people
    RunLogs logs = RunLogs::with;
    ClusterFiles files = ClusterFiles::without;
    bool incremental = false;
    std::size_t keep = 0;  // incremental: newest backups that stay; 0: all
    bool replace = false;  // a former backup in the place of `to` may be replaced
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

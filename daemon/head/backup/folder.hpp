// The directory of incremental backups: its lock, and the order of its backups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "daemon/head/backup/sealed_file.hpp"

namespace rtrain::head {

inline constexpr const char* backup_ending = ".rtbackup";  // the ending of the file names of backups

// An opened directory of backups. Its lock ensures that only one backup uses it at a time.
struct BackupFolder {
    storage::Descriptor lock;
    MasterKey master;
};
// Opens the directory. Makes it, and its key, if it does not exist. Removes the files of backups that were killed.
Result<BackupFolder> open_backup_folder(const std::string& directory, const std::string& secret);

// The backups of a directory, oldest first. A name is TIME-NUMBER.rtbackup. The number counts the backups of the
// directory, so that a clock that is set back does not change the order. Names without a number are older than all
// others.
struct BackupNames {
    std::vector<std::string> ours;     // paths of backups with names as this program makes them
    std::vector<std::string> foreign;  // paths of backups that a person has renamed or added
    std::uint64_t next_number = 1;
};
Result<BackupNames> backup_names(const std::string& directory);
std::string backup_name(std::int64_t wall_ms, std::uint64_t number);

// Removes all but the `kept` newest backups (of those in `ours`), then the pieces that no backup needs.
Status keep_newest_backups(const std::string& directory, std::size_t kept, const std::string& secret,
                           const MasterKey& master);

}  // namespace rtrain::head

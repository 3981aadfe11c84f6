// `head backup` copies the database while the head runs. `head restore-backup` checks the copy before it replaces the
// old files, which are kept beside it. A file under the final name is never half-written.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/descriptor.hpp"
#include "storage/state/audit_table.hpp"
#include "storage/state/body.hpp"
#include "storage/state/schema.hpp"

namespace rtrain::state {
namespace {

namespace fs = std::filesystem;

Error file_error(const std::string& doing, const std::string& path, const std::string& why) {
    return {ErrorCode::io, doing + " " + path + " failed: " + why,
            "check the path, its permissions and the room there"};
}

Status sync_path(const std::string& path) {  // writes a file or a directory to the disk (fsync)
    int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    bool synced = descriptor >= 0 && fsync(descriptor) == 0;
    std::string why = std::strerror(errno);
    if (descriptor >= 0) close(descriptor);
    if (!synced) return file_error("syncing", path, why);
    return Done{};
}

Status rename_path(const std::string& from, const std::string& to) {
    std::error_code failed;
    fs::rename(from, to, failed);
    if (failed) return file_error("renaming " + from + " to", to, failed.message());
    return Done{};
}

std::string parent(const std::string& path) {
    std::string directory = fs::path(path).parent_path().string();
    return directory.empty() ? "." : directory;
}

// Gives the files to the owner of their directory, because root restores and the head may run as that user. Fails for a
// file that is not plain or has a second name, since the owner of the directory could have linked it there.
Status give_to_owner(const std::string& directory, const std::vector<std::string>& files) {
    struct stat owner{};
    if (geteuid() != 0) return Done{};
    if (stat(directory.c_str(), &owner) != 0) return file_error("looking at", directory, std::strerror(errno));
    for (const std::string& file : files) {
        const storage::Descriptor opened(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        struct stat facts{};
        if (!opened.open() || fstat(opened.number(), &facts) != 0)
            return file_error("opening", file, std::strerror(errno));
        if (!S_ISREG(facts.st_mode) || facts.st_nlink != 1)
            return file_error("giving to the owner of " + directory, file, "it is no plain file with one name");
        if (fchown(opened.number(), owner.st_uid, owner.st_gid) != 0)
            return file_error("giving to the owner of " + directory, file, std::strerror(errno));
    }
    return Done{};
}

// Copies the source, as it is at one moment, into one file without a WAL.
Status copy_pages(Database& source, Database& target) {
    sqlite3_backup* copy = sqlite3_backup_init(target.handle(), "main", source.handle(), "main");
    if (!copy) return target.error("beginning the copy");
    sqlite3_backup_step(copy, -1);
    if (sqlite3_backup_finish(copy) != SQLITE_OK) return target.error("copying");
    return target.run("PRAGMA journal_mode=DELETE");
}

Status check_file(const std::string& path) {
    Result<Database> database = Database::open(path, Database::Mode::existing);
    if (!database) return database.error();
    if (Status whole = check_whole(*database); !whole) return whole.error();
    Result<Loaded> loaded = load_records(*database, "records");
    if (!loaded) return loaded.error();
    return Done{};
}

// Fails unless the path is free or holds an earlier backup.
Status check_target(const std::string& path) {
    std::error_code unseen;
    const bool there = fs::exists(path, unseen);
    if (unseen) return file_error("looking at", path, unseen.message());
    if (!there || check_file(path)) return Done{};
    return Error{ErrorCode::conflict, path + " exists and is not a backup of rtrain", "choose another file name"};
}

Status write_backup(Database& source, const std::string& path) {
    std::error_code none;
    fs::remove(path, none);
    int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0) return file_error("creating", path, std::strerror(errno));
    close(descriptor);
    Result<Database> target = Database::open(path, Database::Mode::existing);
    if (!target) return target.error();
    if (Status copied = copy_pages(source, *target); !copied) return copied.error();
    if (Status whole = check_whole(*target); !whole) return whole.error();
    return sync_path(path);
}

// Renames the old database and its WAL together, to names that SQLite recognises as one database.
Status set_aside(const std::string& path) {
    std::error_code none;
    std::string aside = path + ".before-restore";
    for (const char* suffix : {"", "-wal"}) {
        fs::remove(aside + suffix, none);
        if (!fs::exists(path + suffix)) continue;
        if (Status moved = rename_path(path + suffix, aside + suffix); !moved) return moved.error();
    }
    fs::remove(path + "-shm", none);
    return Done{};
}

}  // namespace

Status SqliteJournal::backup(const std::string& directory, const std::string& to_file) {
    std::string path = directory + "/" + database_name;
    if (!fs::exists(path))
        return Error{ErrorCode::not_found, path + " does not exist", "name the head's data directory with --data"};
    if (Status free = check_target(to_file); !free) return free.error();
    Result<Database> source = Database::open(path, Database::Mode::existing);
    if (!source) return source.error();
    source->leave_wal_on_close();
    std::string partial = to_file + ".partial";
    Status written = write_backup(*source, partial);
    if (!written) {
        std::error_code none;
        fs::remove(partial, none);
        return written.error();
    }
    if (Status moved = rename_path(partial, to_file); !moved) return moved.error();
    return sync_path(parent(to_file));
}

Status SqliteJournal::check(const std::string& directory) {
    const std::string path = directory + "/" + database_name;
    if (Status whole = check_file(path); !whole) return whole;
    Result<Database> database = Database::open(path, Database::Mode::existing);
    if (!database) return database.error();
    const Result<AuditEnd> archived = archived_audit(*database);
    if (!archived) return archived.error();
    return check_segments(audit_folder(directory), *archived);
}

Status SqliteJournal::restore_backup(const std::string& from_file, const std::string& directory) {
    if (!fs::is_regular_file(from_file))
        return Error{ErrorCode::not_found, from_file + " is not a file",
                     "name the file that `rtrain head backup` wrote"};
    Result<DirectoryLock> lock = DirectoryLock::take(directory);
    if (!lock) return lock.error();
    std::string path = directory + "/" + database_name, fresh = path + ".restoring";
    std::error_code failed;
    fs::copy_file(from_file, fresh, fs::copy_options::overwrite_existing, failed);
    if (failed) return file_error("copying " + from_file + " to", fresh, failed.message());
    fs::permissions(fresh, fs::perms::owner_read | fs::perms::owner_write, failed);
    if (Status whole = check_file(fresh); !whole) {
        fs::remove(fresh, failed);
        Error error = whole.error();
        return Error{error.code, from_file + " cannot be restored, and nothing was changed: " + error.message,
                     "use another backup"};
    }
    if (Status given = give_to_owner(directory, {fresh, directory + "/state.lock"}); !given) {
        fs::remove(fresh, failed);
        return given.error();
    }
    if (Status synced = sync_path(fresh); !synced) return synced.error();
    if (Status moved = set_aside(path); !moved) return moved.error();
    if (Status moved = rename_path(fresh, path); !moved) return moved.error();
    if (Status synced = sync_path(directory); !synced) return synced.error();
    return lock->database_is_made();
}

}  // namespace rtrain::state

// See restore.hpp.
#include "daemon/head/backup/restore.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "base/write_all.hpp"
#include "daemon/head/backup/folder.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/security/security.hpp"
#include "storage/state/journal.hpp"
#include "storage/state/lock.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

Error restore_failed(const std::string& doing, const std::string& path) {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    return {full ? ErrorCode::full : ErrorCode::io, doing + " " + path + ": " + std::strerror(errno),
            full ? "make room on the disk of " + path + "; nothing was restored"
                 : "check the path and its permissions; nothing was restored"};
}

Result<std::string> backup_file(const std::string& from) {
    std::error_code failed;
    if (!fs::is_directory(from, failed)) return from;
    const Result<BackupNames> names = backup_names(from);
    if (!names) return names.error();
    if (!names->ours.empty()) return names->ours.back();
    if (!names->foreign.empty()) return names->foreign.back();
    return Error{ErrorCode::not_found, from + " has no backup (*" + backup_ending + ")",
                 "name a backup, or the directory that `rtrain head backup --incremental` was given"};
}

// Where the head is restored to: the real path, and the owner of the empty directory that exists there (nullopt: none
// exists).
struct Target {
    fs::path path;
    std::optional<struct stat> there;
};

Result<Target> check_target_of(const std::string& data_dir) {
    std::error_code failed;
    Target target{.path = fs::weakly_canonical(data_dir, failed), .there = {}};
    if (failed) return Error{ErrorCode::io, "looking at " + data_dir + ": " + failed.message(), "check the path"};
    struct stat facts{};
    if (::stat(target.path.c_str(), &facts) != 0) return target;
    target.there = facts;
    const bool empty = S_ISDIR(facts.st_mode) && fs::is_empty(target.path, failed) && !failed;
    if (empty) return target;
    return Error{ErrorCode::conflict, data_dir + " is not an empty directory, and a restore replaces nothing",
                 "name a new directory with --data, or move that one away"};
}

// Checks the parent directory. Root moves the restored directory by its path, so an account that can rename entries of
// the parent could redirect it.
Status check_parent(const fs::path& parent) {
    struct stat facts{};
    if (::geteuid() != 0 || ::stat(parent.c_str(), &facts) != 0) return Done{};
    const bool others_write = (facts.st_mode & 022) != 0 && (facts.st_mode & S_ISVTX) == 0;
    if (facts.st_uid == 0 && !others_write) return Done{};
    return Error{ErrorCode::conflict, "another account than root may change " + parent.string(),
                 "restore as that account (sudo -u NAME), or below a directory of root's alone"};
}

// A private directory for the restored files. The destructor removes it, unless it was moved to its final place.
class Staging {
  public:
    static Result<Staging> make(const Target& target) {
        std::error_code failed;
        fs::create_directories(target.path.parent_path(), failed);
        if (Status ours = check_parent(target.path.parent_path()); !ours) return ours.error();
        std::string name =
            (target.path.parent_path() / ("." + target.path.filename().string() + ".restoring-XXXXXX")).string();
        if (::mkdtemp(name.data()) == nullptr) return restore_failed("making", name);
        return Staging(name);
    }
    Staging(Staging&& other) noexcept : path_(std::exchange(other.path_, "")) {}
    ~Staging() {
        std::error_code ignored;
        if (!path_.empty()) fs::remove_all(path_, ignored);
    }
    const std::string& path() const { return path_; }

    Status begin_file(const std::string& path) {
        if (Status ended = end_file(); !ended) return ended;
        const std::string whole = path_ + "/" + path;
        for (std::size_t at = path.find('/'); at != path.npos; at = path.find('/', at + 1)) {
            const std::string directory = path_ + "/" + path.substr(0, at);
            if (made_.insert(directory).second && ::mkdir(directory.c_str(), 0700) != 0)
                return restore_failed("making", directory);
        }
        file_ = storage::Descriptor(::open(whole.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        file_path_ = whole;
        return file_.open() ? Status(Done{}) : Status(restore_failed("creating", whole));
    }
    Status write(std::string_view bytes) {
        const int fault = storage::write_all(file_.number(), bytes);
        errno = fault;
        return fault == 0 ? Status(Done{}) : Status(restore_failed("writing", file_path_));
    }
    Status end_file() {
        if (!file_.open()) return Done{};
        const bool durable = ::fsync(file_.number()) == 0 && file_.close() == 0;
        return durable ? Status(Done{}) : Status(restore_failed("writing", file_path_));
    }

    // Gives restored files to the owner of the directory that they replace, if root restores.
    Status give_to(const struct stat& owner) const {
        if (::geteuid() != 0) return Done{};
        std::error_code failed;
        for (fs::recursive_directory_iterator at(path_, failed), end; !failed && at != end; at.increment(failed))
            if (::lchown(at->path().c_str(), owner.st_uid, owner.st_gid) != 0)
                return restore_failed("giving to its owner", at->path());
        if (failed || ::lchown(path_.c_str(), owner.st_uid, owner.st_gid) != 0)
            return restore_failed("giving to its owner", path_);
        return Done{};
    }

    Status take_place(const fs::path& target) {
        if (::rename(path_.c_str(), target.c_str()) != 0) {
            Error error = restore_failed("renaming to", target);
            if (errno == EBUSY || errno == EXDEV)
                error.next = target.string() + " is a mount: name a new directory below it with --data";
            return error;
        }
        path_.clear();
        const storage::Descriptor above(::open(target.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!above.open() || ::fsync(above.number()) != 0) return restore_failed("syncing", target.parent_path());
        return Done{};
    }

  private:
    explicit Staging(std::string path) : path_(std::move(path)) {}
    std::string path_, file_path_;
    std::set<std::string> made_;
    storage::Descriptor file_;
};

Status check_room(const fs::path& target, std::uint64_t bytes) {
    fs::path place = target.parent_path();
    std::error_code unknown;
    while (!place.empty() && place != place.root_path() && !fs::exists(place, unknown)) place = place.parent_path();
    struct statvfs disk{};
    if (::statvfs(place.c_str(), &disk) != 0) return Done{};
    const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
    if (free >= bytes) return Done{};
    return Error{ErrorCode::full,
                 "the backup holds " + std::to_string(bytes) + " bytes, and the disk of " + place.string() + " has " +
                     std::to_string(free) + " free",
                 "make room there, or name a directory on another disk with --data"};
}

// Checks the written directory as a head would: the database is intact, and the authority's key belongs to its
// certificate.
Status check_written(const std::string& directory) {
    if (Status sound = state::SqliteJournal::check(directory); !sound) return sound;
    const Result<std::string> certificate = read_file(directory + "/ca.crt"), key = read_file(directory + "/ca.key");
    if (!certificate) return certificate.error();
    if (!key) return key.error();
    const auto leaf = security::make_leaf({.certificate = *certificate, .private_key = *key}, "rtrain-head");
    return leaf ? Status(Done{}) : Status(leaf.error());
}

Result<RestoreDone> read_whole_backup(const RestoreWish& wish, std::optional<MasterKey>& master) {
    Result<std::string> file = backup_file(wish.from);
    if (!file) return file.error();
    RestoreDone done{.file = *file, .facts = {}, .totals = {}};
    std::set<std::string> needed{"ca.crt", "ca.key", "state.db"};
    const ArchiveTakers takers{.facts =
                                   [&](const BackupFacts& facts) {
                                       done.facts = facts;
                                       return Status(Done{});
                                   },
                               .file =
                                   [&](const std::string& path) {
                                       needed.erase(path);
                                       return Status(Done{});
                                   }};
    const Result<BackupTotals> totals = read_archive(*file, wish.secret, master, takers);
    if (!totals) return totals.error();
    if (!needed.empty())
        return Error{ErrorCode::damaged, *file + " has no " + *needed.begin() + ", without which no head comes back",
                     "use another backup"};
    done.totals = *totals;
    return done;
}

}  // namespace

Result<RestoreDone> check_backup(const RestoreWish& wish) {
    std::optional<MasterKey> master;
    return read_whole_backup(wish, master);
}

Result<RestoreDone> restore_head(const RestoreWish& wish) {
    const Result<Target> target = check_target_of(wish.data_dir);
    if (!target) return target.error();
    std::optional<MasterKey> master;
    Result<RestoreDone> done = read_whole_backup(wish, master);
    if (!done) return done.error();
    if (Status room = check_room(target->path, done->totals.bytes); !room) return room.error();
    Result<Staging> staging = Staging::make(*target);
    if (!staging) return staging.error();
    const ArchiveTakers takers{.file = [&](const std::string& path) { return staging->begin_file(path); },
                               .bytes = [&](std::string_view bytes) { return staging->write(bytes); }};
    if (auto written = read_archive(done->file, wish.secret, master, takers); !written) return written.error();
    if (Status ended = staging->end_file(); !ended) return ended.error();
    if (Status sound = check_written(staging->path()); !sound) return sound.error();
    {
        auto lock = state::DirectoryLock::take(staging->path());
        if (!lock) return lock.error();
        if (Status marked = lock->database_is_made(); !marked) return marked.error();
    }
    if (target->there)
        if (Status given = staging->give_to(*target->there); !given) return given.error();
    if (Status moved = staging->take_place(target->path); !moved) return moved.error();
    return done;
}

}  // namespace rtrain::head

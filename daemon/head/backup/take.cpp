// See take.hpp. At no moment is a file under the final name half-written.
#include "daemon/head/backup/take.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/json_text.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/security/security.hpp"
#include "storage/state/journal.hpp"
#include "storage/state/schema.hpp"
#include "storage/uri/files/beneath.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t secret_least = 12;

Error failed_at(const std::string& doing, const std::string& path) {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    return {full ? ErrorCode::full : ErrorCode::io, doing + " " + path + ": " + std::strerror(errno),
            full ? "make room on the disk of " + path : "check the path and its permissions"};
}

// A file that goes with this object, unless it has taken its place.
class Scratch {
  public:
    explicit Scratch(std::string path) : path_(std::move(path)) {}
    ~Scratch() {
        if (!path_.empty()) ::unlink(path_.c_str());
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    const std::string& path() const { return path_; }
    Status move_to(const std::string& target) {
        if (::rename(path_.c_str(), target.c_str()) != 0) return failed_at("renaming to", target);
        path_.clear();
        const std::string directory = fs::path(target).parent_path();
        const storage::Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!opened.open() || ::fsync(opened.number()) != 0) return failed_at("syncing", directory);
        return Done{};
    }

  private:
    std::string path_;
};

Result<storage::Descriptor> created(const std::string& path) {
    storage::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.open()) return failed_at("creating", path);
    return file;
}

std::string copy_name(const std::string& data_dir) {
    std::error_code unknown;
    const bool scratch = fs::is_directory(data_dir + "/tmp", unknown);
    return data_dir + (scratch ? "/tmp/backup-" : "/state.db.backup-") + security::random_hex(8);
}

Result<BackupFacts> facts_of_copy(const BackupWish& wish, const std::string& database) {
    BackupFacts facts{.version = RTRAIN_VERSION,
                      .cluster_id = "",
                      .cluster_name = "",
                      .ca_fingerprint = "",
                      .address = wish.address,
                      .made_wall_ms = wall_ms(),
                      .left_out = {}};
    Result<state::Database> opened = state::Database::open(database, state::Database::Mode::existing);
    if (!opened) return opened.error();
    for (const auto& [key, text] :
         {std::pair{"cluster_id", &facts.cluster_id}, {"cluster_name", &facts.cluster_name}}) {
        Result<std::string> setting = state::read_setting(*opened, key);
        if (!setting) return setting.error();
        *text = std::move(*setting);
    }
    const Result<std::string> authority = read_file(wish.data_dir + "/ca.crt");
    if (!authority)
        return Error{authority.error().code, "a backup needs the cluster's authority: " + authority.error().message,
                     "run it as the user that the head runs as, or as root"};
    const Result<std::string> print = security::fingerprint(*authority);
    if (!print) return print.error();
    facts.ca_fingerprint = *print;
    return facts;
}

// Adds the files of one directory. A file that is gone by now belonged to a run that ended meanwhile.
Status add_files(ArchiveWriter& archive, const std::string& directory, const std::string& prefix,
                 const std::vector<std::string>& files) {
    const Result<storage::Descriptor> top = storage::open_top(directory);
    if (!top) return top.error();
    for (const std::string& file : files) {
        const Result<storage::Descriptor> opened = storage::open_beneath(*top, file, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (!opened && opened.error().code == ErrorCode::not_found) continue;
        if (!opened) return opened.error();
        struct stat facts{};
        if (::fstat(opened->number(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
        if (Status added = archive.add(prefix + file, *opened); !added) return added;
    }
    return Done{};
}

struct BackupParts {
    Contents data, storage;
    std::string storage_root;
};

// A reader refuses these names, and the whole archive with them.
void leave_out_odd_names(Contents& contents, BackupFacts& facts) {
    std::erase_if(contents.files, [&facts](const std::string& path) {
        const bool kept = is_clean_path(path) && exact_json_text(path).has_value();
        if (!kept) facts.left_out.push_back(path + ", whose name has control characters or is not UTF-8");
        return !kept;
    });
}

Result<BackupParts> parts_of(const BackupWish& wish, BackupFacts& facts) {
    Result<Contents> data = contents_of_data(wish.data_dir, wish.logs);
    if (!data) return data.error();
    BackupParts parts{.data = std::move(*data),
                      .storage = {},
                      .storage_root = wish.storage_root.empty() ? wish.data_dir + "/storage" : wish.storage_root};
    std::error_code unknown;
    const bool has_storage = fs::is_directory(parts.storage_root, unknown);
    if (wish.files == ClusterFiles::with && has_storage) {
        Result<Contents> storage = contents_of_storage(parts.storage_root);
        if (!storage) return storage.error();
        parts.storage = std::move(*storage);
    }
    if (wish.files == ClusterFiles::with && !has_storage)
        facts.left_out.push_back("files of cluster://: there is no directory " + parts.storage_root +
                                 " (--storage-root names another)");
    for (Contents* contents : {&parts.data, &parts.storage}) leave_out_odd_names(*contents, facts);
    if (wish.files == ClusterFiles::without)
        facts.left_out.push_back("files of cluster://, in " + parts.storage_root + " (--with-files adds them)");
    if (wish.logs == RunLogs::without) facts.left_out.emplace_back("logs of runs");
    for (const auto* odd : {&parts.data.odd, &parts.storage.odd})
        for (const std::string& path : *odd) facts.left_out.push_back(path + ", which is no plain file");
    return parts;
}

// Returns what is left out, for people.
Result<std::vector<std::string>> fill(ArchiveWriter& archive, const BackupWish& wish, const std::string& database) {
    Result<BackupFacts> facts = facts_of_copy(wish, database);
    if (!facts) return facts.error();
    Result<BackupParts> parts = parts_of(wish, *facts);
    if (!parts) return parts.error();
    if (Status begun = archive.begin(*facts); !begun) return begun.error();
    const storage::Descriptor copy(::open(database.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!copy.open()) return failed_at("opening", database);
    if (Status added = archive.add("state.db", copy); !added) return added.error();
    if (Status added = add_files(archive, wish.data_dir, "", parts->data.files); !added) return added.error();
    if (!parts->storage.files.empty())
        if (Status added = add_files(archive, parts->storage_root, "storage/", parts->storage.files); !added)
            return added.error();
    if (Status ended = archive.end(); !ended) return ended.error();
    return std::move(facts->left_out);
}

// The directory of incremental backups, held by one backup at a time.
struct BackupFolder {
    storage::Descriptor lock;
    MasterKey master;
};

Status make_key_file(const std::string& directory, const std::string& secret) {
    Result<MasterKey> master = new_master_key(secret);
    if (!master) return master.error();
    Scratch aside(directory + "/.key-" + security::random_hex(8));
    Result<storage::Descriptor> file = created(aside.path());
    if (!file) return file.error();
    Result<SealedWriter> writer = SealedWriter::begin(std::move(*file), aside.path(), *master);
    if (!writer) return writer.error();
    if (Status ended = writer->end('k', ""); !ended) return ended;
    return aside.move_to(directory + "/key");
}

Result<BackupFolder> open_folder(const BackupWish& wish) {
    std::error_code failed;
    if (!fs::exists(wish.to, failed)) {
        if (::mkdir(wish.to.c_str(), 0700) != 0) return failed_at("making", wish.to);
    }
    const std::string key = wish.to + "/key";
    if (!fs::exists(key, failed)) {
        if (!fs::is_empty(wish.to, failed) || failed)
            return Error{ErrorCode::conflict, wish.to + " is not empty, and has no backups of rtrain",
                         "name an empty or a new directory"};
        if (Status created = make_key_file(wish.to, wish.secret); !created) return created.error();
    }
    BackupFolder folder{.lock = storage::Descriptor(::open(key.c_str(), O_RDONLY | O_CLOEXEC)), .master = {}};
    if (!folder.lock.open()) return failed_at("opening", key);
    if (::flock(folder.lock.number(), LOCK_EX | LOCK_NB) != 0)
        return Error{ErrorCode::conflict, "another backup writes into " + wish.to, "try again once it has ended"};
    Result<SealedReader> reader = SealedReader::open(key, wish.secret);
    if (!reader) return reader.error();
    folder.master = reader->master();
    return folder;
}

std::string stamp(std::int64_t now_ms) {
    const std::time_t seconds = now_ms / 1'000;
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    char text[64];
    std::snprintf(text, sizeof text, "%04d%02d%02dT%02d%02d%02d.%03dZ", utc.tm_year + 1'900, utc.tm_mon + 1,
                  utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(now_ms % 1'000));
    return text;
}

// Removes the oldest backups of a directory, and then the pieces that no other backup has.
Status keep_the_newest(const BackupWish& wish, const MasterKey& master) {
    std::vector<std::string> backups;
    std::error_code failed;
    for (fs::directory_iterator at(wish.to, failed), end; !failed && at != end; at.increment(failed))
        if (at->path().extension() == backup_ending) backups.push_back(at->path());
    if (failed) return Error{ErrorCode::io, "listing " + wish.to + ": " + failed.message(), "check its disk"};
    std::sort(backups.rbegin(), backups.rend());
    std::set<std::string> used;
    std::optional<MasterKey> known = master;
    for (std::size_t i = 0; i < std::min(wish.keep, backups.size()); ++i) {
        const ArchiveTakers takers{.piece = [&used](const std::string& id) { used.insert(id); }};
        const auto read = read_archive(backups[i], wish.secret, known, takers);
        if (!read) return read.error();  // its pieces are unknown: nothing is removed
    }
    for (std::size_t i = wish.keep; i < backups.size(); ++i) fs::remove(backups[i], failed);
    const auto removed = Pieces(wish.to, master).remove_unused(used);
    return removed ? Status(Done{}) : Status(removed.error());
}

// Writes the archive beside its place, and moves it there.
Result<BackupDone> write_archive(const BackupWish& wish, const std::string& target, const MasterKey& master,
                                 std::unique_ptr<Pieces> pieces) {
    Scratch copy(copy_name(wish.data_dir));
    if (Status copied = state::SqliteJournal::backup(wish.data_dir, copy.path()); !copied) return copied.error();
    Scratch aside(target + ".partial-" + security::random_hex(8));
    Result<storage::Descriptor> file = created(aside.path());
    if (!file) return file.error();
    Result<SealedWriter> writer = SealedWriter::begin(std::move(*file), aside.path(), master);
    if (!writer) return writer.error();
    ArchiveWriter archive(std::move(*writer), std::move(pieces));
    Result<std::vector<std::string>> left_out = fill(archive, wish, copy.path());
    if (!left_out) return left_out.error();
    if (Status moved = aside.move_to(target); !moved) return moved.error();
    return BackupDone{.file = target, .totals = archive.totals(), .left_out = std::move(*left_out)};
}

}  // namespace

Status check_secret(const std::string& secret) {
    if (secret.size() >= secret_least) return Done{};
    return Error{ErrorCode::usage,
                 "the passphrase or key file has " + std::to_string(secret.size()) + " bytes, and needs at least " +
                     std::to_string(secret_least),
                 "head -c 32 /dev/urandom | base64 > KEYFILE makes a good one"};
}

Result<BackupDone> take_backup(const BackupWish& wish) {
    if (Status fine = check_secret(wish.secret); !fine) return fine.error();
    if (wish.incremental) {
        const Result<BackupFolder> folder = open_folder(wish);
        if (!folder) return folder.error();
        auto done = write_archive(wish, wish.to + "/" + stamp(wall_ms()) + backup_ending, folder->master,
                                  std::make_unique<Pieces>(wish.to, folder->master));
        if (done && wish.keep > 0)
            if (Status kept = keep_the_newest(wish, folder->master); !kept) return kept.error();
        return done;
    }
    struct stat facts{};
    const bool there = ::lstat(wish.to.c_str(), &facts) == 0;
    if (there && (!wish.replace || !is_sealed_backup(wish.to)))
        return Error{ErrorCode::conflict, wish.to + (wish.replace ? " exists and is no backup of rtrain" : " exists"),
                     "name another file"};
    const Result<MasterKey> master = new_master_key(wish.secret);
    if (!master) return master.error();
    return write_archive(wish, wish.to, *master, nullptr);
}

}  // namespace rtrain::head

// Makes a backup. It is written under a temporary name, so a partly written file never has the final name.
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
#include "daemon/head/backup/folder.hpp"
#include "daemon/head/backup/scratch.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/security/security.hpp"
#include "storage/state/journal.hpp"
#include "storage/state/schema.hpp"
#include "storage/uri/files/beneath.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t secret_least = 12;

// Returns the folder for copies of the database: `tmp`, which a head empties at its start, if it exists.
std::string place_of_copies(const std::string& data_dir) {
    std::error_code unknown;
    return fs::is_directory(data_dir + "/tmp", unknown) ? data_dir + "/tmp" : data_dir;
}

// Returns a setting that the head has saved; empty if there is none.
Result<std::string> head_setting(const std::string& database, const std::string& key) {
    Result<state::Database> opened = state::Database::open(database, state::Database::Mode::existing);
    if (!opened) return opened.error();
    return state::read_setting(*opened, state::setting_prefix + key);
}

// Returns the directory of cluster://: the one in the request, else the one with which the head was last started.
Result<std::string> storage_root_of(const BackupWish& wish, const std::string& database) {
    if (!wish.storage_root.empty()) return wish.storage_root;
    Result<std::string> root = head_setting(database, storage_root_setting);
    if (root && root->empty()) return wish.data_dir + "/storage";
    return root;
}

Result<BackupFacts> facts_of_copy(const BackupWish& wish, const std::string& database) {
    BackupFacts facts{.version = RTRAIN_VERSION,
                      .cluster_id = "",
                      .cluster_name = "",
                      .ca_fingerprint = "",
                      .address = wish.address,
                      .made_wall_ms = wall_ms(),
                      .left_out = {}};
    for (const auto& [key, text] :
         {std::pair{"cluster_id", &facts.cluster_id}, {"cluster_name", &facts.cluster_name}}) {
        Result<std::string> setting = head_setting(database, key);
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

// Adds the files of one directory. A file that no longer exists belonged to a run that ended meanwhile, and is skipped.
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

// Removes names that a reader of the archive would refuse together with the whole archive.
void leave_out_odd_names(Contents& contents, BackupFacts& facts) {
    std::erase_if(contents.files, [&facts](const std::string& path) {
        const bool kept = is_clean_path(path) && exact_json_text(path).has_value();
        if (!kept) facts.left_out.push_back(path + ", whose name has control characters or is not UTF-8");
        return !kept;
    });
}

Result<BackupParts> parts_of(const BackupWish& wish, const std::string& database, BackupFacts& facts) {
    Result<std::string> root = storage_root_of(wish, database);
    if (!root) return root.error();
    Result<Contents> data = contents_of_data(wish.data_dir, wish.logs);
    if (!data) return data.error();
    BackupParts parts{.data = std::move(*data), .storage = {}, .storage_root = std::move(*root)};
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

// Writes the parts of the backup. Returns messages about excluded files.
Result<std::vector<std::string>> fill(ArchiveWriter& archive, const BackupWish& wish, const std::string& database) {
    Result<BackupFacts> facts = facts_of_copy(wish, database);
    if (!facts) return facts.error();
    Result<BackupParts> parts = parts_of(wish, database, *facts);
    if (!parts) return parts.error();
    if (Status begun = archive.begin(*facts); !begun) return begun.error();
    const storage::Descriptor copy(::open(database.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!copy.open()) return backup_file_error("opening", database);
    if (Status added = archive.add("state.db", copy); !added) return added.error();
    if (Status added = add_files(archive, wish.data_dir, "", parts->data.files); !added) return added.error();
    if (!parts->storage.files.empty())
        if (Status added = add_files(archive, parts->storage_root, "storage/", parts->storage.files); !added)
            return added.error();
    if (Status ended = archive.end(); !ended) return ended.error();
    return std::move(facts->left_out);
}

// Writes the archive beside its final place, and moves it there.
Result<BackupDone> write_archive(const BackupWish& wish, const std::string& target, const MasterKey& master,
                                 std::unique_ptr<Pieces> pieces) {
    const std::string copies = place_of_copies(wish.data_dir);
    remove_dead_scratch(copies);
    const Result<ScratchDirectory> copy = ScratchDirectory::make(copies);
    if (!copy) return copy.error();
    const std::string database = copy->path() + "/state.db";
    if (Status copied = state::SqliteJournal::backup(wish.data_dir, database); !copied) return copied.error();
    Result<Scratch> aside = Scratch::make(target + ".partial-");
    if (!aside) return aside.error();
    Result<storage::Descriptor> file = aside->writer();
    if (!file) return file.error();
    Result<SealedWriter> writer = SealedWriter::begin(std::move(*file), aside->path(), master);
    if (!writer) return writer.error();
    ArchiveWriter archive(std::move(*writer), std::move(pieces));
    Result<std::vector<std::string>> left_out = fill(archive, wish, database);
    if (!left_out) return left_out.error();
    if (Status moved = aside->move_to(target); !moved) return moved.error();
    return BackupDone{.file = target, .totals = archive.totals(), .left_out = std::move(*left_out)};
}

Result<BackupDone> take_incremental_backup(const BackupWish& wish) {
    const Result<BackupFolder> folder = open_backup_folder(wish.to, wish.secret);
    if (!folder) return folder.error();
    const Result<BackupNames> names = backup_names(wish.to);
    if (!names) return names.error();
    auto done = write_archive(wish, wish.to + "/" + backup_name(wall_ms(), names->next_number), folder->master,
                              std::make_unique<Pieces>(wish.to, folder->master));
    if (done && wish.keep > 0)
        if (Status kept = keep_newest_backups(wish.to, wish.keep, wish.secret, folder->master); !kept)
            return kept.error();
    return done;
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
    if (wish.incremental) return take_incremental_backup(wish);
    remove_dead_scratch(fs::path(wish.to).parent_path());
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

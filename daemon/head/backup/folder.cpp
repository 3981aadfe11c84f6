// See folder.hpp.
#include "daemon/head/backup/folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "daemon/head/backup/archive.hpp"
#include "daemon/head/backup/scratch.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t stamp_bytes = sizeof "20261128T063000.123Z" - 1;

Status make_key_file(const std::string& directory, const std::string& secret) {
    Result<MasterKey> master = new_master_key(secret);
    if (!master) return master.error();
    Result<Scratch> aside = Scratch::make(directory + "/.key-");
    if (!aside) return aside.error();
    Result<storage::Descriptor> file = aside->writer();
    if (!file) return file.error();
    Result<SealedWriter> writer = SealedWriter::begin(std::move(*file), aside->path(), *master);
    if (!writer) return writer.error();
    if (Status ended = writer->end('k', ""); !ended) return ended;
    return aside->move_to(directory + "/key");
}

// Returns true for a name that `backup_name` makes, now or in versions whose names had no number. For such an old name
// `number` is 0.
bool read_backup_name(const std::string& name, std::uint64_t& number) {
    if (name.size() < stamp_bytes) return false;
    for (std::size_t i = 0; i < stamp_bytes; ++i) {
        const char form = "00000000T000000.000Z"[i];
        const bool digit = name[i] >= '0' && name[i] <= '9';
        if (form == '0' ? !digit : name[i] != form) return false;
    }
    number = 0;
    std::string_view rest = std::string_view(name).substr(stamp_bytes);
    if (rest == backup_ending) return true;
    if (!rest.starts_with('-') || !rest.ends_with(backup_ending)) return false;
    rest = rest.substr(1, rest.size() - 1 - std::string_view(backup_ending).size());
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    return read.ec == std::errc() && read.ptr == rest.data() + rest.size() && number > 0 && number < UINT64_MAX;
}

}  // namespace

Result<BackupFolder> open_backup_folder(const std::string& directory, const std::string& secret) {
    std::error_code failed;
    if (!fs::exists(directory, failed) && ::mkdir(directory.c_str(), 0700) != 0)
        return backup_file_error("making", directory);
    remove_dead_scratch(directory);
    const std::string key = directory + "/key";
    if (!fs::exists(key, failed)) {
        if (!fs::is_empty(directory, failed) || failed)
            return Error{ErrorCode::conflict, directory + " is not empty, and has no backups of rtrain",
                         "name an empty or a new directory"};
        if (Status created = make_key_file(directory, secret); !created) return created.error();
    }
    BackupFolder folder{.lock = storage::Descriptor(::open(key.c_str(), O_RDONLY | O_CLOEXEC)), .master = {}};
    if (!folder.lock.open()) return backup_file_error("opening", key);
    if (::flock(folder.lock.number(), LOCK_EX | LOCK_NB) != 0)
        return Error{ErrorCode::conflict, "another backup writes into " + directory, "try again once it has ended"};
    Result<SealedReader> reader = SealedReader::open(key, secret);
    if (!reader) return reader.error();
    folder.master = reader->master();
    Pieces(directory, folder.master).remove_unfinished();
    return folder;
}

std::string backup_name(std::int64_t wall_ms, std::uint64_t number) {
    const std::time_t seconds = wall_ms / 1'000;
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    char text[96];
    std::snprintf(text, sizeof text, "%04d%02d%02dT%02d%02d%02d.%03dZ-%06llu", utc.tm_year + 1'900, utc.tm_mon + 1,
                  utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(wall_ms % 1'000),
                  static_cast<unsigned long long>(number));
    return std::string(text) + backup_ending;
}

Result<BackupNames> backup_names(const std::string& directory) {
    BackupNames names;
    std::vector<std::tuple<std::uint64_t, std::string>> ours;
    std::error_code failed;
    for (fs::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
        if (at->path().extension() != backup_ending) continue;
        std::uint64_t number = 0;
        if (!read_backup_name(at->path().filename(), number)) {
            names.foreign.push_back(at->path());
            continue;
        }
        ours.emplace_back(number, at->path());
        names.next_number = std::max(names.next_number, number + 1);
    }
    if (failed) return Error{ErrorCode::io, "listing " + directory + ": " + failed.message(), "check its disk"};
    std::sort(ours.begin(), ours.end());
    for (auto& [number, path] : ours) names.ours.push_back(std::move(path));
    std::sort(names.foreign.begin(), names.foreign.end());
    return names;
}

Status keep_newest_backups(const std::string& directory, std::size_t kept, const std::string& secret,
                           const MasterKey& master) {
    Result<BackupNames> names = backup_names(directory);
    if (!names) return names.error();
    const auto first = names->ours.end() - static_cast<std::ptrdiff_t>(std::min(kept, names->ours.size()));
    std::vector<std::string> staying(first, names->ours.end());
    staying.insert(staying.end(), names->foreign.begin(), names->foreign.end());
    std::set<std::string> used;
    std::optional<MasterKey> known = master;
    for (const std::string& backup : staying) {
        const ArchiveTakers takers{.piece = [&used](const std::string& id) { used.insert(id); }};
        const auto read = read_archive(backup, secret, known, takers);
        if (!read) return read.error();  // if a backup cannot be read, its pieces are unknown, so no piece is removed
    }
    std::error_code failed;
    for (auto old = names->ours.begin(); old != first; ++old) fs::remove(*old, failed);
    const auto removed = Pieces(directory, master).remove_unused(used);
    return removed ? Status(Done{}) : Status(removed.error());
}

}  // namespace rtrain::head

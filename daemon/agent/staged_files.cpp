#include "daemon/agent/staged_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "storage/checkpoint/run_directory.hpp"
#include "storage/uri/taking.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;
using storage::Descriptor;
constexpr const char* manifest_name = ".manifest.json";
// What a rank stages that has put its files into the run's directory itself: a note of where they lie. Until all have
// come others may put theirs beside them, so they are taken over only then, by one rename: ours, or that of a rank
// which returns from its report and might use the directory again. The mark beside the files says so to ranks; it is no
// file of the checkpoint.
constexpr const char *in_place_note = "/.rtrain-in-place", *taken_name = "/.rtrain-taken",
                     *mark_prefix = ".rtrain-taking-";

std::string path_of(const Descriptor& opened) { return "/proc/self/fd/" + std::to_string(opened.number()); }

// The directory that holds the entry, reached through real directories only.
Descriptor folder_of(const StagedEntry& entry) {
    constexpr int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    Descriptor at(::open(entry.stage.c_str(), flags));
    for (const fs::path& part : fs::path(entry.name).parent_path())
        if (at.open()) at = Descriptor(::openat(at.number(), part.c_str(), flags));
    return at;
}

std::string place_of(const std::string& stage) {
    std::error_code failed;
    if (fs::is_directory(stage + taken_name, failed)) return stage + taken_name;
    const auto note = read_whole(stage + in_place_note);
    return note ? *note : stage;
}

Status take_place(const fs::path& run, const std::string& stage) {
    const auto given = read_whole(stage + in_place_note);
    if (!given) return Done{};
    std::error_code failed;
    const fs::path inside = fs::weakly_canonical(*given, failed).lexically_relative(fs::weakly_canonical(run, failed));
    if (failed || run.empty() || inside.empty() || inside.native().starts_with('.'))
        return Error{ErrorCode::invalid, *given + " does not lie in the run's directory " + run.string(), ""};
    if (::rename(given->c_str(), (stage + taken_name).c_str()) == 0) return Done{};
    const int why = errno;
    if (fs::is_directory(stage + taken_name, failed))
        return Done{};  // by a rank; what lies there now is not of this report
    return Error{ErrorCode::io, "taking over " + *given + ": " + std::strerror(why), ""};
}

Error unread(const std::string& name, const std::error_code& why) {
    const bool refused = why == std::errc::permission_denied;
    return {refused ? ErrorCode::unauthorised : ErrorCode::io,
            "reading the staged file '" + name + "': " + why.message(), refused ? unreadable_next : ""};
}

}  // namespace

bool is_stage_of(const AttemptGear& gear, std::uint32_t rank, const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return false;
    const std::string below = path.substr(0, slash), name = path.substr(slash + 1), own = rank_text(rank) + "-";
    if (below != gear.staging && below != gear.spool) return false;
    return name.starts_with(own) && name.size() > own.size() &&
           name.find_first_not_of("0123456789-", own.size()) == std::string::npos;
}

Status StagedFiles::take_over(const StagedPaths& staged) const {
    const UserRights::Worn worn(rights_);
    if (!worn.taken()) return worn.taken().error();
    const std::string run = gear_.store->local() ? gear_.store->local_path(gear_.prepare.run_name) : "";
    for (const auto& [rank, stage] : staged)
        if (Status taken = take_place(run, stage); !taken) return taken;
    return Done{};
}

Status StagedFiles::list_rank(std::uint32_t rank, const std::string& given,
                              std::map<std::string, StagedEntry>& files) const {
    const std::string stage = place_of(given);
    std::error_code failed;
    const bool there = fs::is_directory(stage, failed);
    if (failed && failed != std::errc::no_such_file_or_directory)
        return Error{ErrorCode::io, "reading staged files in " + stage + ": " + failed.message(), ""};
    if (!there) return Done{};  // a try before has moved its files
    for (auto at = fs::recursive_directory_iterator(stage, failed); !failed && at != fs::recursive_directory_iterator();
         at.increment(failed)) {
        const std::string name = fs::path(at->path()).lexically_relative(stage).generic_string();
        std::error_code trouble;
        const bool is_file = at->is_regular_file(trouble);
        if (trouble == std::errc::no_such_file_or_directory) continue;  // a link to nothing
        const auto bytes = is_file ? static_cast<std::int64_t>(at->file_size(trouble)) : 0;
        if (trouble) return unread(name, trouble);
        if (!is_file || name == manifest_name || name.starts_with(mark_prefix)) continue;
        std::error_code gone;
        files.emplace(
            name,
            StagedEntry{.rank = rank, .stage = stage, .name = name, .bytes = bytes, .link = at->is_symlink(gone)});
    }
    if (failed) return Error{ErrorCode::io, "reading staged files in " + stage + ": " + failed.message(), ""};
    return Done{};
}

Result<std::map<std::string, StagedEntry>> StagedFiles::list(const StagedPaths& staged) const {
    std::map<std::string, StagedEntry> files;
    {
        const UserRights::Worn worn(rights_);
        if (!worn.taken()) return worn.taken().error();
        for (const auto& [rank, stage] : staged)
            if (Status listed = list_rank(rank, stage, files); !listed) return listed.error();
    }
    if (!rights_.others()) return files;
    for (const auto& [name, entry] :
         files)  // now, since an upload that cannot read them would be tried again and again
        if (auto opened = rights_.open_file(entry.local()); !opened) return opened.error();
    return files;
}

Result<std::string> StagedFiles::hash(const StagedEntry& entry, const storage::Progress& progress) const {
    if (!rights_.others()) return storage::hash_file(entry.local(), progress);
    auto opened = rights_.open_file(entry.local());
    if (!opened) return opened.error();
    return storage::hash_file(path_of(*opened), progress);
}

Status StagedFiles::give(const StagedEntry& entry, const std::string& path, const storage::Progress& progress) const {
    if (!rights_.others()) return gear_.store->put_file(entry.local(), path, true, progress);
    auto opened = rights_.open_file(entry.local());
    if (!opened) return opened.error();
    struct stat facts{};
    const bool own = ::fstat(opened->number(), &facts) == 0 && facts.st_nlink == 1 && rights_.owns(facts.st_uid);
    if (const Descriptor folder = folder_of(entry); own && folder.open()) {
        const std::string there = path_of(folder) + "/" + fs::path(entry.name).filename().string();
        const auto taken = storage::take_file(*gear_.store, there, path, progress);
        if (!taken) return taken.error();
        if (*taken) return Done{};
    }
    if (Status sent = gear_.store->put_file(path_of(*opened), path, false, progress); !sent) return sent;
    if (const UserRights::Worn worn(rights_); worn.taken()) ::unlink(entry.local().c_str());
    return Done{};
}

}  // namespace rtrain::agent

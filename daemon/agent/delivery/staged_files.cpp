#include "daemon/agent/delivery/staged_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/checkpoint_name.hpp"
#include "base/json_text.hpp"
#include "base/relative_path.hpp"
#include "storage/checkpoint/layout.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "storage/uri/files/taking.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {
namespace {

using storage::Descriptor;
// The name of a rank's note that its files are already in the run's directory. The note holds their path, and the files
// stay there. Other ranks may add their files until all ranks have reported. If the directory lies deeper, a zero byte
// and its path below the run's directory follow.
constexpr const char* in_place_note = ".rtrain-in-place";
constexpr std::size_t note_most = 4096 + 1 + storage::checkpoint_name_most;

std::string path_of(const Descriptor& opened) { return "/proc/self/fd/" + std::to_string(opened.number()); }

constexpr int a_directory = O_RDONLY | O_DIRECTORY, a_file = O_RDONLY | O_NONBLOCK | O_NOCTTY;

Error unread(const Error& why, const std::string& name, const UserRights& rights) {
    const bool refused = why.code == ErrorCode::unauthorised;
    return {why.code,
            "reading the staged file '" + name + "'" + (rights.others() ? " as user " + rights.name() : "") + ": " +
                why.message,
            !why.next.empty() ? why.next
            : refused         ? unreadable_next
                              : ""};
}

struct NotedPlace {
    std::string path;  // as the rank gave it
    std::string name;  // relative to the run's directory
};

// Returns the place in the note of a rank that stored its files in the run's directory itself; empty without a note.
NotedPlace noted_place(const Descriptor& stage) {
    const auto note = storage::open_beneath(stage, in_place_note, a_file);
    char text[note_most];
    const ssize_t length = note ? ::read(note->number(), text, sizeof text) : 0;
    const std::string whole = length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "";
    const auto zero = whole.find('\0');
    if (zero == std::string::npos) return {whole, whole.substr(whole.rfind('/') + 1)};
    return {whole.substr(0, zero), whole.substr(zero + 1)};
}

}  // namespace

bool is_stage_of(const AttemptContext& context, std::uint32_t rank, const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return false;
    const std::string below = path.substr(0, slash), name = path.substr(slash + 1), own = rank_text(rank) + "-";
    if (below != context.staging && below != context.spool) return false;
    return name.starts_with(own) && name.size() > own.size() &&
           name.find_first_not_of("0123456789abcdef-", own.size()) == std::string::npos;
}

// Opens a staged directory beneath the storage path, or in the agent's own spool. A link in its place is refused.
Result<Descriptor> StagedFiles::open_stage(const std::string& stage) const {
    const std::string root = context_.store->local() ? context_.store->local_path("") : "";
    const bool stored = !root.empty() && stage.starts_with(root);
    const auto slash = stored ? root.size() : stage.rfind('/') + 1;
    const auto top = stored ? context_.store->top() : storage::open_top(stage.substr(0, slash));
    if (!top) return top.error();
    return storage::open_beneath(*top, stage.substr(slash), a_directory);
}

Result<std::string> StagedFiles::in_place(const StagedPaths& staged) const {
    const UserRights::Worn worn(rights_);
    if (!worn.taken()) return worn.taken().error();
    std::string directory_name;
    for (const auto& [rank, stage] : staged) {
        const auto opened = open_stage(stage);
        if (!opened && opened.error().code != ErrorCode::not_found) return opened.error();
        const std::string name = opened ? noted_place(*opened).name : "";
        if (!directory_name.empty() && !name.empty() && name != directory_name)
            return Error{ErrorCode::invalid,
                         "ranks bring the directories " + directory_name + " and " + name + " of the run",
                         "of one report all bring the same directory, or all but one stage their files"};
        if (!name.empty()) directory_name = name;
    }
    return directory_name;
}

Status StagedFiles::list_rank(std::uint32_t rank, const std::string& given,
                              std::map<std::string, StagedEntry>& files) const {
    auto stage = open_stage(given);
    if (!stage && stage.error().code == ErrorCode::not_found) return Done{};  // an earlier try has moved its files
    if (!stage) return stage.error();
    const NotedPlace noted = noted_place(*stage);
    // Links in it may contain the path as the rank gave it.
    const std::string named = noted.path.empty() ? given : noted.path;
    std::string place = given;
    if (!noted.path.empty()) {
        if (!context_.store->local() || !storage::safe_relative(noted.name))
            return Error{ErrorCode::invalid, noted.path + " is no directory of the run", ""};
        place = context_.store->local_path(context_.prepare.run_name + "/" + noted.name);
        stage = open_stage(place);
        if (!stage) return stage.error();
    }
    auto entries = storage::entries_below(*stage);
    if (!entries) return entries.error();
    for (storage::TreeEntry& tree_entry : *entries) {
        if (tree_entry.path == storage::manifest_name) continue;
        StagedEntry entry{.rank = rank,
                          .stage = place,
                          .named = named,
                          .name = tree_entry.path,
                          .bytes = tree_entry.bytes,
                          .link = tree_entry.link,
                          .in_place = !noted.path.empty()};
        // The files are opened now, since an upload that cannot read them would be retried for ever.
        auto opened = open_entry(entry);
        struct stat facts{};
        // A link without a target.
        if (!opened && tree_entry.link && opened.error().code == ErrorCode::not_found) continue;
        if (!opened) return opened.error();
        if (::fstat(opened->number(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;  // a link to a directory
        entry.bytes = static_cast<std::int64_t>(facts.st_size);
        if (!exact_json_text(nlohmann::json(entry.name)))  // the manifest would name a file that does not exist
            return Error{ErrorCode::invalid,
                         "the file " + json_text(nlohmann::json(entry.name)) + " of rank " + std::to_string(rank) +
                             "'s checkpoint has a name that is not UTF-8",
                         "give it another name"};
        files.emplace(entry.name, std::move(entry));
    }
    return Done{};
}

Result<std::map<std::string, StagedEntry>> StagedFiles::list(const StagedPaths& staged) const {
    std::map<std::string, StagedEntry> files;
    const UserRights::Worn worn(rights_);
    if (!worn.taken()) return worn.taken().error();
    for (const auto& [rank, stage] : staged)
        if (Status listed = list_rank(rank, stage, files); !listed) return listed.error();
    return files;
}

// Opens a staged file. The caller has taken on the user's rights.
Result<Descriptor> StagedFiles::open_entry(const StagedEntry& entry) const {
    const auto stage = open_stage(entry.stage);
    if (!stage) return stage.error();
    auto opened = entry.link ? storage::open_within(*stage, entry.named, entry.name, a_file)
                             : storage::open_beneath(*stage, entry.name, a_file);
    return opened ? std::move(opened) : unread(opened.error(), entry.name, rights_);
}

Result<std::string> StagedFiles::hash(const StagedEntry& entry, const storage::Progress& progress) const {
    const UserRights::Worn worn(rights_);
    if (!worn.taken()) return worn.taken().error();
    const auto opened = open_entry(entry);
    if (!opened) return opened.error();
    return storage::hash_opened(*opened, entry.local(), progress);
}

Result<storage::Place> StagedFiles::place_of(const StagedEntry& entry) const {
    const auto stage = open_stage(entry.stage);
    if (!stage) return stage.error();
    return storage::place_beneath(*stage, entry.name);
}

// Returns true if the file reached its place without a copy: it was there, or it was moved. Called with the user's
// rights.
Result<bool> StagedFiles::move_there(const StagedEntry& entry, const Descriptor& opened, const std::string& path,
                                     const storage::Progress& progress) const {
    if (entry.in_place && !entry.link) {
        if (::fsync(opened.number()) == 0) return true;
        return Error{ErrorCode::io, "syncing " + entry.local() + ": " + std::strerror(errno), ""};
    }
    struct stat facts{};
    const bool plain = ::fstat(opened.number(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 1;
    if (!plain || entry.link || (rights_.others() && !rights_.owns(facts.st_uid))) return false;
    const auto place = place_of(entry);
    if (!place) return false;
    return storage::take_file(*context_.store, path_of(place->directory) + "/" + place->name, path, progress);
}

Status StagedFiles::give(const StagedEntry& entry, const std::string& path, const storage::Progress& progress,
                         const Sent& sent) const {
    Result<Descriptor> opened{Error{}};
    {
        const UserRights::Worn worn(rights_);
        if (!worn.taken()) return worn.taken().error();
        opened = open_entry(entry);
        if (!opened) return opened.error();
        const auto moved = move_there(entry, *opened, path, progress);
        if (!moved) return moved.error();
        if (*moved) return Done{};
    }
    if (!context_.store->local()) {
        if (Status put = context_.store->put_file(path_of(*opened), path, false, progress); !put) return put;
        if (sent) sent(*opened);
    }
    const UserRights::Worn worn(rights_);
    if (!worn.taken()) return worn.taken();
    if (context_.store->local())  // copies from the descriptor, since opening it again would use the agent's rights
        if (Status copied = storage::put_opened(*context_.store, *opened, entry.local(), path, progress); !copied)
            return copied;
    if (entry.link) return Done{};  // other links may lead over it; it is removed with the directory
    if (const auto place = place_of(entry)) ::unlinkat(place->directory.number(), place->name.c_str(), 0);
    return Done{};
}

}  // namespace rtrain::agent

// See kept_checkpoints.hpp.
#include "daemon/agent/disk/kept_checkpoints.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <tuple>
#include <utility>

#include "base/hex.hpp"
#include "base/relative_path.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/taking.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;
using storage::Descriptor;

constexpr std::string_view sent_prefix = "sent-";
constexpr std::size_t sha256_digits = 64;
constexpr std::int64_t share = 5;                // a fifth of the free bytes, as for the spool
constexpr const char* claimed_mark = "claimed";  // never a hash
constexpr int a_file = O_RDONLY | O_NONBLOCK | O_NOCTTY;

Error failed(const std::string& doing, const std::string& path) {
    return {ErrorCode::io, doing + " " + path + ": " + std::strerror(errno), ""};
}

// True if the text is a SHA-256. A user writes the manifest, so a hash in it may be any text.
bool is_sha256(const std::string& text) { return text.size() == sha256_digits && storage::is_hex(text); }

// Returns the names below a directory, without those being removed. Empty if the directory is missing.
std::vector<std::string> names_below(const std::string& directory) {
    const auto opened = storage::open_top(directory);
    auto names = opened ? storage::names_in(*opened) : Result<std::vector<std::string>>(std::vector<std::string>{});
    if (!names) return {};
    std::erase_if(*names, [](const std::string& name) { return name.starts_with('.'); });
    return *names;
}

// Returns attempt and report of a name of the agent's, "2-17".
std::pair<std::uint64_t, std::uint64_t> numbers_of(const std::string& name) {
    const auto dash = name.find('-');
    if (dash == std::string::npos) return {};
    return {std::strtoull(name.c_str(), nullptr, 10), std::strtoull(name.c_str() + dash + 1, nullptr, 10)};
}

std::vector<KeptCheckpoint> kept_below(const std::string& kept) {
    std::vector<KeptCheckpoint> all;
    for (const std::string& run : names_below(kept))
        for (const std::string& name : names_below(kept + "/" + run)) {
            const std::string directory = run + "/" + name;
            struct stat seen{};
            if (::lstat((kept + "/" + directory).c_str(), &seen) != 0) continue;
            all.push_back(
                {.directory = directory,
                 .bytes = storage::bytes_below(kept + "/" + directory),
                 .kept_wall_ms = std::int64_t{seen.st_ctim.tv_sec} * 1000 + seen.st_ctim.tv_nsec / 1'000'000});
        }
    return all;
}

}  // namespace

std::string sent_below(const std::string& spool, std::uint64_t report) {
    return spool + "/" + std::string(sent_prefix) + std::to_string(report);
}

Status begin_sent(const std::string& spool, const std::string& sent) {
    for (const std::string& name : names_below(spool))
        if (name.starts_with(sent_prefix) && spool + "/" + name != sent) remove_tree(spool + "/" + name);
    return make_directory(sent, 0700);
}

// Links the sent file by its descriptor, so that the kept file is the sent one even if the user has exchanged its name.
// The file must be on the disk of the agent's directory, as the spool is.
Status keep_sent(const Descriptor& file, const std::string& sent, const std::string& sha256) {
    const std::string opened = "/proc/self/fd/" + std::to_string(file.number()), name = sent + "/" + sha256;
    struct stat seen{};
    if (!is_sha256(sha256) || ::fstat(file.number(), &seen) != 0 || !S_ISREG(seen.st_mode) || seen.st_nlink != 1)
        return Done{};  // the file has other names, so it does not belong to the checkpoint alone
    if (::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0 || errno == EEXIST)
        return Done{};
    return failed("keeping", name);
}

Status keep_committed(const std::string& kept, const std::string& directory, const std::string& sent) {
    const std::string place = kept + "/" + directory;
    if (!storage::safe_relative(directory)) return Error{ErrorCode::invalid, directory + " is no name", ""};
    if (Status status = make_directory(fs::path(place).parent_path(), 0700); !status) return status;
    const bool renamed = ::rename(sent.c_str(), place.c_str()) == 0;
    // Either nothing was sent from this node, or an earlier agent has kept it.
    if (renamed || errno == ENOENT || errno == EEXIST || errno == ENOTEMPTY) return Done{};
    return failed("keeping", place);
}

void drop_replaced(const std::string& kept, const std::string& directory) {
    const fs::path place(directory);
    const std::string run = kept + "/" + place.parent_path().string();
    for (const std::string& name : names_below(run))
        if (numbers_of(name) < numbers_of(place.filename())) remove_tree(run + "/" + name);  // a newer one stays
    ::rmdir(run.c_str());  // removes it if nothing was sent from this node
    std::error_code unseen;
    const auto space = fs::space(kept, unseen);
    constexpr std::uintmax_t most = std::numeric_limits<std::int64_t>::max() / 2;
    if (unseen) return;
    for (const std::string& checkpoint :
         beyond_room(kept_below(kept), static_cast<std::int64_t>(std::min(space.available, most)))) {
        log_info("checkpoint " + checkpoint +
                 " is not kept on this node: it would take more than a fifth of what is free");
        remove_tree(kept + "/" + checkpoint);
    }
}

std::vector<std::string> beyond_room(std::vector<KeptCheckpoint> all, std::int64_t free_bytes) {
    std::int64_t kept_bytes = 0;
    for (const KeptCheckpoint& checkpoint : all) kept_bytes += checkpoint.bytes;
    const std::int64_t room = (free_bytes + kept_bytes) / share;
    std::sort(all.begin(), all.end(), [&](const KeptCheckpoint& a, const KeptCheckpoint& b) {
        const bool a_alone = a.bytes > room, b_alone = b.bytes > room;
        if (a_alone != b_alone) return a_alone;
        return std::tie(a.kept_wall_ms, a.directory) < std::tie(b.kept_wall_ms, b.directory);
    });
    std::vector<std::string> gone;
    for (const KeptCheckpoint& checkpoint : all) {
        if (kept_bytes <= room) break;
        kept_bytes -= checkpoint.bytes;
        gone.push_back(checkpoint.directory);
    }
    return gone;
}

void drop_kept(const std::string& kept, const std::string& run_id) {
    if (storage::safe_relative(run_id)) remove_tree(kept + "/" + run_id);
}

bool drop_all_kept(const std::string& kept) {
    if (kept.empty() || names_below(kept).empty()) return false;
    log_info("the checkpoints kept on this node are removed: their room is needed");
    remove_tree(kept);
    return true;
}

storage::NearerCopies KeptFiles::copies(bool relied_on) {
    storage::NearerCopies copies{.make_room = [this] { drop_all_kept(kept_); }};
    if (!relied_on) return copies;
    copies.put = [this](const storage::ManifestFile& file, const std::string& target) { return put(file, target); };
    copies.refused = [this](const storage::ManifestFile& file) { refuse(file); };
    return copies;
}

bool KeptFiles::first_claim() const {
    bool first = true;
    for (const std::string& name : names_below(kept_ + "/" + run_id_)) {
        const std::string mark = kept_ + "/" + run_id_ + "/" + name + "/" + claimed_mark;
        const Descriptor mark_file(::open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        first = first && mark_file.open();
    }
    return first;
}

std::string KeptFiles::text() const {
    if (files_ == 0) return "";
    return std::to_string(files_) + (files_ == 1 ? " file" : " files") + " of " + std::to_string(bytes_) + " bytes";
}

// Copies a kept file to `target`. A process of its user may change the file or let it grow meanwhile. So the copy is
// hashed, and it has at most the bytes in the manifest.
bool KeptFiles::put(const storage::ManifestFile& file, const std::string& target) {
    const auto run = storage::open_top(kept_ + "/" + run_id_);
    if (!run || !is_sha256(file.sha256)) return false;
    for (const std::string& name : names_below(kept_ + "/" + run_id_)) {
        const auto opened = storage::open_beneath(*run, name + "/" + file.sha256, a_file);
        struct stat seen{};
        if (!opened || ::fstat(opened->number(), &seen) != 0) continue;
        if (!S_ISREG(seen.st_mode) || seen.st_size != file.bytes) continue;
        const Status copied =
            storage::copy_opened(*opened, storage::shown(*run, name + "/" + file.sha256), target, file.bytes);
        if (copied) {
            bytes_ += file.bytes;
            ++files_;
            return true;
        }
        warn("a file of a checkpoint is downloaded though it lies on this node: " + copied.error().message);
        if (copied.error().code == ErrorCode::full) drop_all_kept(kept_);
        return false;
    }
    return false;
}

void KeptFiles::refuse(const storage::ManifestFile& file) {
    bytes_ -= file.bytes;
    --files_;
    warn("the file " + file.path + " that run " + run_id_ +
         " left on this node is not what was committed: it is downloaded");
    for (const std::string& name : names_below(kept_ + "/" + run_id_))
        ::unlink((kept_ + "/" + run_id_ + "/" + name + "/" + file.sha256).c_str());
}

}  // namespace rtrain::agent

// See log_shares.hpp.
#include "daemon/head/logs/log_shares.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "base/write_all.hpp"
#include "daemon/head/logs/log_store.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;
using storage::Descriptor;

// True if the file system cannot free a part of a file. Then only the disk's reserve limits the logs.
std::atomic<bool> cannot_cut = false;

constexpr const char* owner_file = "/owner";  // name of the file in a run's log directory that contains the user's name
constexpr std::uint64_t share_part = 8, share_least = 1 << 20,
                        // share_part: the fraction of the disk, as a divisor; share_least: bytes; kept_of_4: quarters
                        // of the share that are kept.
    kept_of_4 = 3;

std::uint64_t index_bytes(const std::string& log_path) {
    struct stat facts{};
    return ::stat((log_path + ".times").c_str(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

bool written(const std::string& path, std::string_view bytes) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640));
    return file.open() && storage::write_all(file.number(), bytes) == 0;
}

// Removes the index entries of removed parts. For each part it keeps the first entry, which belongs to the part's note,
// and the last one, which holds for the text after the part.
class MarksLeft {
  public:
    explicit MarksLeft(const storage::LogCuts& cuts) : cuts_(cuts) {}
    std::vector<LogTimes::Mark> of(const std::vector<LogTimes::Mark>& marks) {
        std::vector<LogTimes::Mark> left;
        for (const LogTimes::Mark& mark : marks) {
            const storage::LogCut* cut =
                mark.offset == log_complete_mark ? nullptr : storage::cut_from(cuts_, mark.offset);
            const bool gone = cut && mark.offset >= cut->begin;
            if (last_ && !(gone && cut->end == last_->offset)) left.push_back(*std::exchange(last_, std::nullopt));
            if (!gone || !last_) left.push_back(mark);
            if (gone) last_ = LogTimes::Mark{.offset = cut->end, .wall_ms = mark.wall_ms};
        }
        return left;
    }
    std::optional<LogTimes::Mark> last() const { return last_; }

  private:
    const storage::LogCuts& cuts_;
    std::optional<LogTimes::Mark> last_;  // the last entry of the removed part that is being read
};

std::string_view bytes_of(const std::vector<LogTimes::Mark>& marks) {
    return {reinterpret_cast<const char*>(marks.data()), marks.size() * sizeof(LogTimes::Mark)};
}

// Writes the index of a log again, without the entries of removed parts. If that fails, the old index stays. Readers
// reopen the index for each part of it.
void cut_index(const std::string& log_path, const storage::LogCuts& cuts) {
    constexpr std::size_t marks_at_once = 4'096;
    const std::string path = log_path + ".times", aside = path + ".new";
    const Descriptor from(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    Descriptor to(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640));
    MarksLeft left(cuts);
    bool whole = from.open() && to.open();
    for (std::vector<LogTimes::Mark> marks; whole;) {
        marks.resize(marks_at_once);
        const ssize_t got = ::read(from.number(), marks.data(), marks_at_once * sizeof(LogTimes::Mark));
        whole = got >= 0;
        marks.resize(got > 0 ? static_cast<std::size_t>(got) / sizeof(LogTimes::Mark) : 0);
        if (marks.empty()) break;
        whole = storage::write_all(to.number(), bytes_of(left.of(marks))) == 0;
    }
    if (whole && left.last()) whole = storage::write_all(to.number(), bytes_of({*left.last()})) == 0;
    if (!whole || to.close() != 0 || ::rename(aside.c_str(), path.c_str()) != 0) ::unlink(aside.c_str());
}

std::uint64_t bytes_on_disk(const LogFile& file) {
    return file.bytes - storage::bytes_cut(file.cuts, 0, file.bytes) + index_bytes(file.path);
}

}  // namespace

std::uint64_t logs_bytes(const std::string& directory, RunId run) {
    std::uint64_t bytes = 0;
    for (const LogFile& file : log_files(directory, run)) bytes += bytes_on_disk(file);
    return bytes;
}

std::uint64_t logs_of_user(const std::string& directory) {
    struct statvfs disk{};
    if (::statvfs(directory.c_str(), &disk) != 0 || disk.f_blocks == 0)
        return std::numeric_limits<std::uint64_t>::max();
    return std::max(static_cast<std::uint64_t>(disk.f_blocks) * disk.f_frsize / share_part, share_least);
}

// Reads how many bytes of logs each user has. A file in the run's log directory names the user; logs of older versions
// have no such file.
void LogShares::find_owners() {
    owners_.emplace();
    std::error_code none;
    for (fs::directory_iterator at(directory_, none), end; !none && at != end; at.increment(none)) {
        const RunId run{std::strtoull(at->path().filename().c_str(), nullptr, 10)};
        std::string user(256, '\0');
        const Descriptor file(::open((at->path().string() + owner_file).c_str(), O_RDONLY | O_CLOEXEC));
        const ssize_t got = file.open() ? ::pread(file.number(), user.data(), user.size(), 0) : 0;
        if (got <= 0 || run.value == 0) continue;
        user.resize(static_cast<std::size_t>(got));
        Owner& owner = (*owners_)[user];
        owner.bytes += owner.runs[run] = logs_bytes(directory_, run);
    }
}

void LogShares::came(const std::string& user, RunId run, std::uint64_t bytes) {
    if (!owners_) find_owners();
    Owner& owner = (*owners_)[user];
    const auto known = owner.runs.find(run);
    if (known == owner.runs.end()) {
        const std::string path = directory_ + "/" + std::to_string(run.value) + owner_file;
        if (!written(path, user)) return;  // the user is unknown until the next piece
        owner.bytes += owner.runs[run] = logs_bytes(directory_, run);
    } else {
        known->second += bytes;
        owner.bytes += bytes;
    }
    changed_[run] = owner.runs[run];
    hold(user);
}

// If the user's logs exceed the share, cuts them. The largest runs are cut to one common size, so that the sum falls to
// 3/4 of the share. Within such a run, the largest logs are cut to one common size.
void LogShares::hold(const std::string& user) {
    if (cannot_cut) return;
    Owner& owner = owners_->at(user);
    const std::uint64_t share = share_(directory_);
    if (owner.bytes <= share) return;
    std::vector<std::uint64_t> sizes;
    for (const auto& [run, bytes] : owner.runs) sizes.push_back(bytes);
    const std::uint64_t level = storage::level_of(std::move(sizes), share / 4 * kept_of_4);
    for (auto& [run, bytes] : owner.runs) {
        if (bytes <= level) continue;
        const std::uint64_t now = hold_run(run, level);
        owner.bytes -= bytes - std::min(bytes, now);
        bytes = std::min(bytes, now);
        changed_[run] = bytes;
    }
}

// Cuts the run's logs to `most` bytes together. Returns their size afterwards.
std::uint64_t LogShares::hold_run(RunId run, std::uint64_t most) {
    const std::vector<LogFile> all = log_files(directory_, run);
    std::vector<std::uint64_t> sizes;
    for (const LogFile& file : all) sizes.push_back(bytes_on_disk(file));
    const std::uint64_t level = storage::level_of(sizes, most);
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (sizes[i] <= level) continue;
        const std::uint64_t bytes = all[i].bytes - storage::bytes_cut(all[i].cuts, 0, all[i].bytes);
        const auto scaled = static_cast<std::uint64_t>(static_cast<double>(bytes) * static_cast<double>(level) /
                                                       // The index is cut in the same proportion as the log.
                                                       static_cast<double>(sizes[i]));
        storage::LogCuts cuts = all[i].cuts;
        storage::add_cut(cuts, storage::at_line_ends(all[i].path, storage::middle_of(all[i].bytes, cuts, scaled)));
        if (cuts == all[i].cuts) continue;
        const int error = storage::cut_log(all[i].path, cuts);
        if (error == EOPNOTSUPP) cannot_cut = true;
        if (error != 0)
            std::fprintf(stderr, "rtrain head: the middle of %s cannot be dropped: %s\n", all[i].path.c_str(),
                         std::strerror(error));
        else
            cut_index(all[i].path, cuts);
    }
    return logs_bytes(directory_, run);
}

void LogShares::gone(RunId run) {
    if (!owners_) return;
    for (auto& [user, owner] : *owners_)
        if (const auto known = owner.runs.find(run); known != owner.runs.end()) {
            owner.bytes -= known->second;
            owner.runs.erase(known);
        }
    std::erase_if(*owners_, [](const auto& entry) { return entry.second.runs.empty(); });
}

}  // namespace rtrain::head

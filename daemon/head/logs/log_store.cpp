// See log_store.hpp. The index of a log is a list of fixed records (offset, wall time). A record with offset ~0 means
// "the log is complete".
#include "daemon/head/logs/log_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/descriptor.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;
using storage::Descriptor;

Descriptor opened(const std::string& path, int flags) {
    return Descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0640));
}

Error failed(const std::string& doing, const std::string& path) {
    const ErrorCode code = errno == ENOSPC || errno == EDQUOT ? ErrorCode::full : ErrorCode::io;
    return {code, doing + " " + path + ": " + std::strerror(errno), "check the disk of the head's data directory"};
}

std::string index_of(const std::string& log_path) { return log_path + ".times"; }

Status append(const std::string& path, const char* bytes, std::size_t size, std::uint64_t offset) {
    const Descriptor file = opened(path, O_WRONLY | O_CREAT);
    if (!file.open()) return failed("opening", path);
    for (std::size_t done = 0; done < size;) {
        const ssize_t wrote = ::pwrite(file.number(), bytes + done, size - done, static_cast<off_t>(offset + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return failed("writing", path);
        done += static_cast<std::size_t>(wrote);
    }
    return Done{};
}

std::uint64_t file_size_of(const std::string& path) {
    struct stat facts{};
    return ::stat(path.c_str(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

Status mark(const std::string& log_path, LogTimes::Mark at) {
    const std::string path = index_of(log_path);
    // After a crash the last record may be incomplete; it is overwritten.
    const std::uint64_t whole = file_size_of(path) / sizeof at * sizeof at;
    return append(path, reinterpret_cast<const char*>(&at), sizeof at, whole);
}

bool is_complete(const std::string& log_path) {
    const std::string path = index_of(log_path);
    LogTimes::Mark last;
    const std::uint64_t size = file_size_of(path);
    const Descriptor file = opened(path, O_RDONLY);
    if (!file.open() || size < sizeof last) return false;
    const auto at = static_cast<off_t>(size / sizeof last * sizeof last - sizeof last);
    return ::pread(file.number(), &last, sizeof last, at) == sizeof last && last.offset == log_complete_mark;
}

// Parses the names "attempt-000002" and "rank-00000.out" in the path. Returns false for other files.
bool parse(const fs::path& path, LogName& name) {
    const std::string directory = path.parent_path().filename(), file = path.filename();
    unsigned attempt = 0, rank = 0;
    char stream[16] = {};
    if (std::sscanf(directory.c_str(), "attempt-%u", &attempt) != 1) return false;
    if (std::sscanf(file.c_str(), "rank-%u.%15[a-z]", &rank, stream) != 2) return false;
    name.attempt = attempt;
    name.rank = rank;
    name.stream = stream;
    return path.extension() == "." + name.stream;  // false for another file beside a log, such as its index
}

constexpr std::uint64_t lost_most = std::uint64_t{1} << 50;  // the most bytes that a node may report as lost

}  // namespace

std::uint64_t free_bytes(const std::string& directory) {
    struct statvfs disk{};
    if (::statvfs(directory.c_str(), &disk) != 0) return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
}

bool LogStore::waits_for_room() {
    waits_ = free_(directory_) < (waits_ ? reserve_ + reserve_ / 4 : reserve_);
    return waits_;
}

std::string LogStore::path_of(const LogName& name) const {
    char text[96];
    std::snprintf(text, sizeof text, "/%llu/attempt-%06u/rank-%05u.%s", static_cast<unsigned long long>(name.run.value),
                  name.attempt, name.rank, name.stream.c_str());
    return directory_ + text;
}

std::uint64_t LogStore::size_of(const LogName& name) const { return file_size_of(path_of(name)); }

Result<std::uint64_t> LogStore::take(const Piece& piece) {
    const std::string& stream = piece.name.stream;
    if (stream != "out" && stream != "err" && stream != "setup")
        return Error{ErrorCode::invalid, "log stream '" + stream + "' is not one of out, err, setup", ""};
    const std::string path = path_of(piece.name);
    const std::uint64_t have = size_of(piece.name);
    if (piece.offset > have) return have;
    if (piece.lost > 0) return take_lost(piece, path, have);
    const std::uint64_t known = have - piece.offset;
    if (known > piece.bytes.size() || (known == piece.bytes.size() && !piece.last)) return have;
    if (waits_for_room())
        return Error{ErrorCode::full,
                     "less than " + std::to_string(reserve_ >> 20) + " MiB would be free in " + directory_,
                     "make room on the disk of the head's data directory"};
    std::error_code failed_to;
    fs::create_directories(fs::path(path).parent_path(), failed_to);
    if (auto done = append(path, piece.bytes.data() + known, piece.bytes.size() - known, have); !done) {
        fs::resize_file(path, have, failed_to);
        return done.error();
    }
    if (known < piece.bytes.size())
        if (auto done = mark(path, {have, piece.wall_ms}); !done) return done.error();
    if (piece.last && !is_complete(path))
        if (auto done = mark(path, {log_complete_mark, piece.wall_ms}); !done) return done.error();
    if (!piece.user.empty())
        shares_.came(piece.user, piece.name.run, piece.bytes.size() - known + sizeof(LogTimes::Mark));
    return piece.offset + piece.bytes.size();
}

// Extends the file by the bytes that the node has lost, so that offsets equal those on the node.
Result<std::uint64_t> LogStore::take_lost(const Piece& piece, const std::string& path, std::uint64_t have) {
    if (!piece.bytes.empty() || piece.last || piece.lost > lost_most || piece.offset > lost_most)
        return Error{ErrorCode::invalid, "a piece of a log that lost its middle is not sound", ""};
    const std::uint64_t end = piece.offset + piece.lost;
    if (end <= have) return have;
    std::error_code failed_to;
    fs::create_directories(fs::path(path).parent_path(), failed_to);
    storage::LogCuts cuts = storage::log_cuts(path);
    storage::add_cut(cuts, {have, end});
    if ((errno = storage::write_cuts(path, cuts)) != 0) return failed("writing the cuts of", path);
    if (auto done = mark(path, {have, piece.wall_ms}); !done) return done.error();
    if (auto created = append(path, nullptr, 0, 0); !created) return created.error();
    if (::truncate(path.c_str(), static_cast<off_t>(end)) != 0) return failed("making room in", path);
    return end;
}

Result<std::vector<LogFile>> list_logs(const std::string& directory, RunId run) {
    std::vector<LogFile> out;
    std::error_code none;
    const fs::path root = directory + "/" + std::to_string(run.value);
    for (fs::recursive_directory_iterator at(root, none), end; !none && at != end; at.increment(none)) {
        LogFile file{.name = {.run = run, .attempt = 0, .rank = 0, .stream = ""}, .path = at->path(), .bytes = 0};
        if (!at->is_regular_file(none) || !parse(at->path(), file.name)) continue;
        file.bytes = file_size_of(file.path);
        file.complete = is_complete(file.path);
        file.cuts = storage::log_cuts(file.path);
        out.push_back(std::move(file));
    }
    if (none && none != std::errc::no_such_file_or_directory)
        return Error{ErrorCode::io, "listing the logs in " + root.string() + ": " + none.message(), ""};
    std::sort(out.begin(), out.end(), [](const LogFile& a, const LogFile& b) { return a.name < b.name; });
    return out;
}

std::vector<LogFile> log_files(const std::string& directory, RunId run) {
    auto out = list_logs(directory, run);
    return out ? std::move(*out) : std::vector<LogFile>();
}

void LogStore::forget(RunId run) {
    forget_logs(directory_, run);
    shares_.gone(run);
}

void forget_logs(const std::string& directory, RunId run) {
    std::error_code ignored;  // an error is ignored; the remaining files are removed with the data directory
    fs::remove_all(directory + "/" + std::to_string(run.value), ignored);
}

Status sync_logs(const std::string& directory) {
    const Descriptor root = opened(directory, O_RDONLY | O_DIRECTORY);
    if (!root.open()) return failed("opening", directory);
    if (::syncfs(root.number()) != 0) return failed("syncing", directory);
    return Done{};
}

LogTimes::LogTimes(const std::string& log_path) : path_(index_of(log_path)) {}

std::int64_t LogTimes::at(std::uint64_t offset) {
    if (window_.empty() || offset < window_.front().offset || offset >= until_) load(offset);
    const auto after = std::upper_bound(window_.begin(), window_.end(), offset,
                                        [](std::uint64_t value, const Mark& mark) { return value < mark.offset; });
    return after == window_.begin() ? 0 : std::prev(after)->wall_ms;
}

// Reads the index entries around `offset`. For a sequential reader they follow the present window; otherwise they are
// found by bisection.
void LogTimes::load(std::uint64_t offset) {
    constexpr std::size_t window_most = 256;
    const Descriptor file = opened(path_, O_RDONLY);
    if (!file.open() && errno != ENOENT) failed_ = true;
    std::size_t begin = first_ + window_.size(), end = file_size_of(path_) / sizeof(Mark);
    window_.clear();
    if (!file.open()) return;
    const auto read = [&](Mark* to, std::size_t at, std::size_t count) {
        ssize_t got = 0;
        do {
            got = ::pread(file.number(), to, count * sizeof(Mark), static_cast<off_t>(at * sizeof(Mark)));
        } while (got < 0 && errno == EINTR);
        if (got < 0) failed_ = true;
        return got > 0 ? static_cast<std::size_t>(got) / sizeof(Mark) : 0;
    };
    const auto behind = [&](std::size_t at) {
        Mark mark;
        return read(&mark, at, 1) == 1 && mark.offset <= offset;
    };
    if (begin > 0) --begin;  // the entry before also counts, since an entry holds up to the next one
    const bool goes_on = begin < end && behind(begin) && !behind(std::min(begin + window_most, end));
    if (!goes_on) {
        // entries below `low` are at or before the offset; entries from `high` on are behind it
        std::size_t low = 0, high = end;
        while (low < high) {
            const std::size_t middle = low + (high - low) / 2;
            behind(middle) ? low = middle + 1 : high = middle;
        }
        begin = low > 0 ? low - 1 : 0;
    }
    window_.resize(std::min(window_most + 1, end - std::min(begin, end)));
    window_.resize(window_.empty() ? 0 : read(window_.data(), begin, window_.size()));
    first_ = begin;
    if (window_.empty()) return;  // the index is unreadable, or was cut meanwhile; the next query reads again
    until_ = begin + window_.size() < end ? window_.back().offset : log_complete_mark;
    if (window_.size() > window_most) window_.pop_back();
    std::erase_if(window_, [](const Mark& mark) { return mark.offset == log_complete_mark; });
}

}  // namespace rtrain::head

// See log_cuts.hpp. The list consists of rows of two numbers in memory order, since only the machine that wrote it
// reads it.
#include "base/log_cuts.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/write_all.hpp"

namespace rtrain::storage {
namespace {

constexpr std::uint64_t line_search = 64 << 10;  // maximum distance by which a cut is moved to the end of a line

std::string list_of(const std::string& log) { return log + ".cuts"; }

std::string piece_of(int file, std::uint64_t begin, std::uint64_t most) {
    std::string bytes(static_cast<std::size_t>(most), '\0');
    const ssize_t got = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

}  // namespace

LogCuts log_cuts(const std::string& log) {
    const Descriptor file(::open(list_of(log).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.open()) return {};
    LogCuts cuts(log_cuts_most);
    const ssize_t got = ::pread(file.number(), cuts.data(), cuts.size() * sizeof(LogCut), 0);
    cuts.resize(got > 0 ? static_cast<std::size_t>(got) / sizeof(LogCut) : 0);
    return cuts;
}

void add_cut(LogCuts& cuts, LogCut cut) {
    if (cut.begin >= cut.end) return;
    const auto first = std::find_if(cuts.begin(), cuts.end(), [&](const LogCut& old) { return old.end >= cut.begin; });
    auto last = first;
    for (; last != cuts.end() && last->begin <= cut.end; ++last)
        cut = {std::min(cut.begin, last->begin), std::max(cut.end, last->end)};
    cuts.insert(cuts.erase(first, last), cut);
    if (cuts.size() <= log_cuts_most) return;
    std::size_t least = 1;
    for (std::size_t i = 2; i < cuts.size(); ++i)
        if (cuts[i].begin - cuts[i - 1].end < cuts[least].begin - cuts[least - 1].end) least = i;
    cuts[least - 1].end = cuts[least].end;
    cuts.erase(cuts.begin() + static_cast<std::ptrdiff_t>(least));
}

std::uint64_t bytes_cut(const LogCuts& cuts, std::uint64_t begin, std::uint64_t end) {
    std::uint64_t bytes = 0;
    for (const LogCut& cut : cuts) {
        const std::uint64_t from = std::max(cut.begin, begin), to = std::min(cut.end, end);
        if (from < to) bytes += to - from;
    }
    return bytes;
}

const LogCut* cut_from(const LogCuts& cuts, std::uint64_t offset) {
    const auto cut = std::find_if(cuts.begin(), cuts.end(), [&](const LogCut& listed) { return listed.end > offset; });
    return cut == cuts.end() ? nullptr : &*cut;
}

std::string cut_note(const LogCut& cut) {
    return "rtrain: " + std::to_string(cut.end - cut.begin) +
           " bytes of this log are missing here: it was longer than its node and the head keep";
}

LogCut middle_of(std::uint64_t size, const LogCuts& cuts, std::uint64_t most) {
    if (size - bytes_cut(cuts, 0, size) <= most) return {};
    const std::uint64_t first = std::min(most / 4, log_first_most), newest = most - first;
    // Bytes that are already cut do not count, as the newest bytes may be on both sides of a cut.
    std::uint64_t end = size, left = newest;
    for (auto cut = cuts.rbegin(); cut != cuts.rend() && cut->end < end; ++cut) {
        const std::uint64_t behind = end - cut->end;
        if (behind >= left) break;
        left -= behind;
        end = cut->begin;
    }
    return {.begin = std::min(first, size), .end = end - std::min(left, end)};
}

LogCut at_line_ends(const std::string& log, LogCut cut) {
    const Descriptor file(::open(log.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat facts{};
    if (!file.open() || cut.begin >= cut.end || ::fstat(file.number(), &facts) != 0) return cut;
    const std::uint64_t size = std::max(static_cast<std::uint64_t>(facts.st_size), cut.end);
    const std::uint64_t before = std::min(cut.begin / 2, line_search);
    const std::string first = piece_of(file.number(), cut.begin - before, before);
    const std::string next = piece_of(file.number(), cut.end, std::min((size - cut.end) / 4, line_search));
    if (const auto at = first.rfind('\n'); at != std::string::npos) cut.begin = cut.begin - before + at + 1;
    if (const auto at = next.find('\n'); at != std::string::npos) cut.end += at + 1;
    return cut;
}

std::uint64_t level_of(std::vector<std::uint64_t> sizes, std::uint64_t most) {
    std::sort(sizes.begin(), sizes.end());
    std::uint64_t left = most;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::uint64_t share = left / (sizes.size() - i);
        if (sizes[i] > share) return share;
        left -= sizes[i];
    }
    return most;
}

int write_cuts(const std::string& log, const LogCuts& cuts) {
    const std::string aside = list_of(log) + ".new";
    ::unlink(aside.c_str());
    Descriptor file(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640));
    if (!file.open()) return errno;
    const std::string_view bytes(reinterpret_cast<const char*>(cuts.data()), cuts.size() * sizeof(LogCut));
    int error = write_all(file.number(), bytes);
    if (error == 0 && file.close() != 0) error = errno;
    if (error == 0 && ::rename(aside.c_str(), list_of(log).c_str()) != 0) error = errno;
    if (error != 0) ::unlink(aside.c_str());
    return error;
}

// If the disk is full, the list is written after the cut, which makes room for it.
int cut_log(const std::string& log, const LogCuts& cuts) {
    const int listed = write_cuts(log, cuts);
    if (listed != 0 && listed != ENOSPC && listed != EDQUOT) return listed;
    const Descriptor file(::open(log.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.open()) return errno;
    for (const LogCut& cut : cuts) {
        if (::fallocate(file.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(cut.begin),
                        static_cast<off_t>(cut.end - cut.begin)) == 0)
            continue;
        const int error = errno;
        if (error == EOPNOTSUPP)
            ::unlink(list_of(log).c_str());  // this file system removes no parts, so the log is complete
        return error;
    }
    return listed == 0 ? 0 : write_cuts(log, cuts);
}

}  // namespace rtrain::storage

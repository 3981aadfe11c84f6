#include "daemon/agent/delivery/kept_logs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/descriptor.hpp"
#include "base/log_cuts.hpp"
#include "base/write_all.hpp"

namespace rtrain::agent {
namespace {

using storage::Descriptor;

constexpr std::size_t copied_at_once = 1 << 20;

Error copy_failed(const std::string& path, int error) {
    const bool full = error == ENOSPC || error == EDQUOT;
    return {full ? ErrorCode::full : ErrorCode::io, "copying the log " + path + ": " + std::strerror(error), ""};
}

// Returns 0, or the error's number.
int copy_part(const Descriptor& from, const Descriptor& to, std::uint64_t begin, std::uint64_t end) {
    std::string bytes;
    while (begin < end) {
        bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(end - begin, copied_at_once)));
        const ssize_t got = ::pread(from.number(), bytes.data(), bytes.size(), static_cast<off_t>(begin));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) return 0;
        bytes.resize(static_cast<std::size_t>(got));
        if (const int error = storage::write_all(to.number(), bytes); error != 0) return error;
        begin += bytes.size();
    }
    return 0;
}

// Writes a copy of the log, with a note in the place of each cut.
Status write_left(const std::string& log, const storage::LogCuts& cuts, const std::string& copy) {
    ::unlink(copy.c_str());
    const Descriptor from(::open(log.c_str(), O_RDONLY | O_CLOEXEC));
    if (!from.open()) return copy_failed(log, errno);
    const Descriptor to(::open(copy.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640));
    if (!to.open()) return copy_failed(copy, errno);
    std::uint64_t at = 0;
    for (const storage::LogCut& cut : cuts) {
        if (const int error = copy_part(from, to, at, cut.begin); error != 0) return copy_failed(copy, error);
        char last = '\n';
        if (cut.begin > 0 && ::pread(from.number(), &last, 1, static_cast<off_t>(cut.begin - 1)) != 1) last = '\n';
        const std::string note = (last == '\n' ? "" : "\n") + storage::cut_note(cut) + "\n";
        if (const int error = storage::write_all(to.number(), note); error != 0) return copy_failed(copy, error);
        at = cut.end;
    }
    if (const int error = copy_part(from, to, at, std::filesystem::file_size(log)); error != 0)
        return copy_failed(copy, error);
    return Done{};
}

}  // namespace

Status put_log(storage::Store& store, const std::string& log, const std::string& to) {
    const std::filesystem::path path = log;
    const std::string copy = (path.parent_path() / ("copy-of-" + path.filename().string())).string();
    for (;;) {
        const storage::LogCuts cuts = storage::log_cuts(log);
        Status put = cuts.empty() ? store.put_file(log, to, false, {}) : write_left(log, cuts, copy);
        if (put && !cuts.empty()) put = store.put_file(copy, to, false, {});
        ::unlink(copy.c_str());
        if (!put || storage::log_cuts(log) == cuts) return put;  // otherwise zeros may have been read
    }
}

}  // namespace rtrain::agent

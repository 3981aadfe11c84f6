// Sends files in pieces. inotify reports new bytes; the bytes of a burst are read together.
#include "daemon/agent/delivery/log_shipper.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/agent/base/limits.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/preparation/preparation.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t gather_ms = 25;
constexpr std::int64_t room_ms = 250;  // time until the next try after the connection or the head had no room
constexpr std::int64_t seen_apart_ms = 500;
constexpr std::size_t seen_at_most = 2'000;  // after this number the newest time stands for the rest
constexpr const char* streams[] = {"out", "err"};
constexpr const char* setup_stream = "setup";

std::uint64_t size_of(const std::string& path) {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

std::string read_piece(const std::string& path, std::uint64_t offset, std::uint64_t most) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return {};
    std::string bytes(most, '\0');
    const ssize_t got = ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    ::close(descriptor);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

std::string name_of(std::uint32_t rank, const std::string& stream) { return rank_text(rank) + "." + stream; }

}  // namespace

LogShipper::LogShipper(net::Loop& loop, NodeFiles files, std::function<bool(const protocol::LogChunk&)> send,
                       ShareOfUser share)
    : loop_(loop),
      files_(std::move(files)),
      send_(std::move(send)),
      share_(std::move(share)),
      inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    if (inotify_ >= 0) loop_.watch_readable(inotify_, [this] { changed(); });
}

LogShipper::~LogShipper() {
    if (inotify_ < 0) return;
    loop_.unwatch(inotify_);
    ::close(inotify_);
}

LogShipper::Followed& LogShipper::begin(AttemptKey key, const Bounds& bounds) {
    Followed& followed = followed_[key];
    uncount(followed);
    followed.files.clear();
    followed.bounds = bounds;
    return followed;
}

void LogShipper::add(Followed& followed, const protocol::AttemptRef& attempt, std::uint32_t rank, const char* stream) {
    const AttemptKey key = key_of(attempt);
    const auto known = read_values(files_.logs(key) + "/acknowledged");
    File file{.attempt = attempt, .rank = rank, .stream = stream, .path = files_.log(key, rank, stream)};
    if (const auto at = known.find(name_of(rank, stream)); at != known.end())
        file.acknowledged = file.sent = std::strtoull(at->second.c_str(), nullptr, 10);
    file.cuts = storage::log_cuts(file.path);
    count(followed, file);
    followed.files.push_back(std::move(file));
}

// Takes the file's bytes on the disk into the sums, as they are now.
void LogShipper::count(Followed& followed, File& file) {
    const std::uint64_t size = size_of(file.path), now = size - storage::bytes_cut(file.cuts, 0, size);
    held_ += now - file.held;
    held_of_[followed.bounds.user] += now - file.held;
    file.held = now;
}

void LogShipper::uncount(Followed& followed) {
    for (const File& file : followed.files) {
        held_ -= file.held;
        held_of_[followed.bounds.user] -= file.held;
    }
    if (held_of_[followed.bounds.user] == 0) held_of_.erase(followed.bounds.user);
}

void LogShipper::watch(AttemptKey key, Followed& followed) {
    if (inotify_ >= 0 && followed.watch < 0)
        followed.watch = ::inotify_add_watch(inotify_, files_.logs(key).c_str(), IN_MODIFY);
    if (followed.watch >= 0) watches_[followed.watch] = key;
    schedule(key, gather_ms);
}

void LogShipper::follow(const protocol::AttemptRef& attempt, const std::vector<std::uint32_t>& ranks,
                        const Bounds& bounds) {
    const AttemptKey key = key_of(attempt);
    Followed& followed = begin(key, bounds);
    for (const std::uint32_t rank : ranks) {
        for (const char* stream : streams) add(followed, attempt, rank, stream);
        if (::access(files_.log(key, rank, setup_stream).c_str(), F_OK) == 0)
            add(followed, attempt, rank, setup_stream);
    }
    watch(key, followed);
}

void LogShipper::follow_setup(const protocol::AttemptRef& attempt, std::uint32_t rank, const Bounds& bounds) {
    Followed& followed = begin(key_of(attempt), bounds);
    add(followed, attempt, rank, setup_stream);
    watch(key_of(attempt), followed);
}

void LogShipper::changed() {
    alignas(inotify_event) char bytes[4096];
    for (;;) {
        const ssize_t got = ::read(inotify_, bytes, sizeof bytes);
        if (got <= 0) return;
        for (ssize_t at = 0; at < got;) {
            const auto* event = reinterpret_cast<const inotify_event*>(bytes + at);
            at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
            if (const auto entry = watches_.find(event->wd); entry != watches_.end())
                schedule(entry->second, gather_ms);
        }
    }
}

void LogShipper::schedule(AttemptKey attempt, std::int64_t in_ms) {
    const auto entry = followed_.find(attempt);
    if (entry == followed_.end() || entry->second.scheduled) return;
    entry->second.scheduled = true;
    loop_.after(in_ms, [this, attempt] {
        if (const auto at = followed_.find(attempt); at != followed_.end()) {
            at->second.scheduled = false;
            pump(attempt);
        }
    });
}

// Notes when the file grew, also while the head is away: so the head learns when a line was written and not when it
// could be sent.
void LogShipper::note_growth(File& file) {
    struct stat info{};
    if (::stat(file.path.c_str(), &info) != 0) return;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    std::erase_if(file.seen, [&](const File::Seen& sighting) { return sighting.bytes <= file.acknowledged; });
    if (size <= (file.seen.empty() ? file.acknowledged : file.seen.back().bytes)) return;
    const std::int64_t written = std::int64_t{info.st_mtim.tv_sec} * 1'000 + info.st_mtim.tv_nsec / 1'000'000;
    const bool close = !file.seen.empty() && written - file.seen.back().wall_ms < seen_apart_ms;
    if (close || file.seen.size() >= seen_at_most)
        file.seen.back().bytes = size;
    else
        file.seen.push_back({size, written});
}

// Returns the end of the log for a file system that cannot cut the middle out of a file. There the log ends at a limit.
// Its worker appends, so bytes that are cut off can appear again after the last line, and are cut off again.
std::uint64_t LogShipper::end_of(File& file) {
    const std::uint64_t size = size_of(file.path);
    if (file.end_at == 0 || size <= file.end_at) return size;
    const std::string line =
        "\nrtrain: the log ends here: it has reached what its node keeps, and the file system of "
        "the node's data directory cannot drop the middle of a file\n";
    const std::uint64_t end = file.end_at + line.size();
    if (read_piece(file.path, file.end_at, line.size()) != line) {
        const int descriptor = ::open(file.path.c_str(), O_WRONLY | O_CLOEXEC);
        if (descriptor < 0) return file.end_at;
        const bool written = ::ftruncate(descriptor, static_cast<off_t>(file.end_at)) == 0 &&
                             ::pwrite(descriptor, line.data(), line.size(), static_cast<off_t>(file.end_at)) ==
                                 static_cast<ssize_t>(line.size());
        ::close(descriptor);
        if (!written) return file.end_at;
    }
    if (size_of(file.path) > end && ::truncate(file.path.c_str(), static_cast<off_t>(end)) != 0) return end;
    return end;
}

void LogShipper::hold_file(Followed& followed, File& file, std::uint64_t most) {
    const std::uint64_t size = end_of(file);
    if (file.end_at > 0) return count(followed, file);
    const storage::LogCut cut = storage::at_line_ends(file.path, storage::middle_of(size, file.cuts, most));
    if (cut.begin >= cut.end) return;
    storage::LogCuts cuts = file.cuts;
    storage::add_cut(cuts, cut);
    const int error = storage::cut_log(file.path, cuts);
    if (error == EOPNOTSUPP)
        file.end_at = std::max<std::uint64_t>(most, 1);
    else if (error != 0)
        warn("the middle of " + file.path + " cannot be dropped: " + std::strerror(error));
    if (error != EOPNOTSUPP) file.cuts = std::move(cuts);
    end_of(file);
    count(followed, file);
}

// Holds a user's logs to the user's share of the disk: the largest files are made as small as each other.
void LogShipper::hold_user(const std::string& user) {
    const std::uint64_t share = share_(held_);
    if (held_of_[user] <= share) return;
    std::vector<std::uint64_t> sizes;
    for (const auto& [key, followed] : followed_)
        if (followed.bounds.user == user)
            for (const File& file : followed.files) sizes.push_back(file.held);
    const std::uint64_t level = storage::level_of(std::move(sizes), share / 4 * limits::cut_keeps_of_4);
    for (auto& [key, followed] : followed_)
        if (followed.bounds.user == user)
            for (File& file : followed.files)
                if (file.held > level) hold_file(followed, file, level);
}

// Sends the head the number of missing bytes. The head may already have some of them.
bool LogShipper::send_lost(File& file, const storage::LogCut& cut) {
    if (!send_({.attempt = file.attempt,
                .rank = file.rank,
                .stream = file.stream,
                .offset = file.sent,
                .lost = cut.end - file.sent}))
        return false;
    file.sent = cut.end;
    return true;
}

bool LogShipper::pump_file(File& file) {
    const std::uint64_t size = end_of(file);
    if (file.later) return true;
    while (file.sent < size && file.sent - file.acknowledged < window) {
        const storage::LogCut* cut = storage::cut_from(file.cuts, file.sent);
        if (cut && cut->begin <= file.sent) {
            if (!send_lost(file, *cut)) return false;
            continue;
        }
        const auto seen = std::find_if(file.seen.begin(), file.seen.end(),
                                       [&](const File::Seen& sighting) { return sighting.bytes > file.sent; });
        std::uint64_t end = seen == file.seen.end() ? size : std::min(size, seen->bytes);
        if (cut) end = std::min(end, cut->begin);
        std::string bytes = read_piece(file.path, file.sent, std::min(piece, end - file.sent));
        if (bytes.empty()) break;
        const std::uint64_t length = bytes.size();
        if (!send_({.attempt = file.attempt,
                    .rank = file.rank,
                    .stream = file.stream,
                    .offset = file.sent,
                    .bytes = std::move(bytes),
                    .wall_ms = seen == file.seen.end() ? 0 : seen->wall_ms}))
            return false;
        file.sent += length;
    }
    if (file.ended && !file.last_sent && file.sent >= size) {
        file.last_sent = send_(
            {.attempt = file.attempt, .rank = file.rank, .stream = file.stream, .offset = file.sent, .last = true});
        return file.last_sent;
    }
    return true;
}

void LogShipper::pump(AttemptKey attempt) {
    const auto entry = followed_.find(attempt);
    if (entry == followed_.end()) return;
    bool sending = connected_;
    hold_to_limits(attempt);
    for (File& file : entry->second.files) {
        note_growth(file);
        sending = sending && pump_file(file);
    }
    // No acknowledgement may be under way that would continue the sending.
    if (connected_ && !sending) schedule(attempt, room_ms);
    settle(entry->second);
}

void LogShipper::settle(Followed& followed) {
    if (!followed.done) return;
    const bool sent = std::all_of(followed.files.begin(), followed.files.end(),
                                  [](const File& file) { return file.last_sent || file.later; });
    if (connected_ && !sent) return;
    const auto done = std::exchange(followed.done, nullptr);
    done();
}

void LogShipper::hold_to_limits(AttemptKey attempt) {
    const auto entry = followed_.find(attempt);
    if (entry == followed_.end()) return;
    Followed& followed = entry->second;
    const std::uint64_t most = followed.bounds.bytes_max;
    for (File& file : followed.files) {
        count(followed, file);
        if (most > 0 && file.held > most) hold_file(followed, file, most / 4 * limits::cut_keeps_of_4);
    }
    hold_user(followed.bounds.user);
}

void LogShipper::finish(AttemptKey attempt, std::function<void()> done) {
    const auto entry = followed_.find(attempt);
    if (entry == followed_.end()) return done();
    for (File& file : entry->second.files) file.ended = true;
    entry->second.done = std::move(done);
    pump(attempt);
}

void LogShipper::acknowledged(const protocol::LogAck& ack) {
    const AttemptKey key = key_of(ack.attempt);
    const auto entry = followed_.find(key);
    if (entry == followed_.end()) return;
    for (File& file : entry->second.files)
        if (file.rank == ack.rank && file.stream == ack.stream) {
            // A head that has fewer bytes than it acknowledged was restored from a backup. It gets the rest again.
            const bool lost = !ack.later && !file.later && ack.offset < file.acknowledged;
            file.acknowledged = lost ? ack.offset : std::max(file.acknowledged, ack.offset);
            if (lost) send_again(file);
            file.sent = std::max(file.sent, file.acknowledged);  // may have been sent before the agent's restart
            if (std::exchange(file.later, ack.later) || ack.later) send_again(file);
        }
    remember(key, entry->second);
    pump(key);
    if (complete(key)) loop_.post([this, key] { on_complete(key); });
}

void LogShipper::send_again(File& file) {
    file.sent = file.acknowledged;
    file.last_sent = false;
}

bool LogShipper::complete(AttemptKey attempt) const {
    const auto entry = followed_.find(attempt);
    if (entry == followed_.end()) return true;
    const auto& files = entry->second.files;
    return !entry->second.done && std::all_of(files.begin(), files.end(), [](const File& file) {
        return file.last_sent && file.acknowledged >= file.sent;
    });
}

void LogShipper::remember(AttemptKey attempt, const Followed& followed) const {
    std::string text;
    for (const File& file : followed.files)
        text += name_of(file.rank, file.stream) + " " + std::to_string(file.acknowledged) + "\n";
    // If this file is lost, some bytes are sent twice, and the head drops them by their offset.
    if (Status kept = write_whole(files_.logs(attempt) + "/acknowledged", text, 0600, Durable::no); !kept) return;
}

void LogShipper::resend() {
    connected_ = true;
    for (auto& [key, followed] : followed_) {
        for (File& file : followed.files) {
            send_again(file);
            file.later = false;
        }
        schedule(key, gather_ms);
    }
}

void LogShipper::disconnected() {
    connected_ = false;
    std::vector<AttemptKey> keys;
    for (const auto& [key, followed] : followed_) keys.push_back(key);
    for (const AttemptKey key : keys)
        if (const auto entry = followed_.find(key); entry != followed_.end()) settle(entry->second);
}

LogShipper::Bounds log_bounds(const AttemptContext& context) {
    return {.user = context.prepare.user, .bytes_max = static_cast<std::uint64_t>(context.job.logs_max_bytes)};
}

void LogShipper::forget(AttemptKey attempt) {
    const auto entry = followed_.find(attempt);
    if (entry == followed_.end()) return;
    if (entry->second.watch >= 0) {
        watches_.erase(entry->second.watch);
        ::inotify_rm_watch(inotify_, entry->second.watch);
    }
    uncount(entry->second);
    followed_.erase(entry);
}

}  // namespace rtrain::agent

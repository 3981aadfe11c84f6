// Workers' logs on the head: <data>/logs/<run>/attempt-000002/rank-00000.out, byte for byte as on the node, with an
// index of the times of its pieces. A piece contains its offset: a repeat is written once, a gap is not written, and in
// both cases the answer is the file's present size. A user's logs stay within a part of the disk. Longer ones lose
// their middle (base/log_cuts.hpp), and so does a log whose middle was dropped on its node.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/log_cuts.hpp"
#include "base/result.hpp"
#include "daemon/head/logs/log_shares.hpp"
#include "scheduler/model/ids.hpp"

namespace rtrain::head {

inline constexpr std::uint64_t log_complete_mark = ~0ull;  // offset of the index's record "complete"

struct LogName {
    RunId run;
    std::uint32_t attempt = 0;
    std::uint32_t rank = 0;
    std::string stream;
    auto operator<=>(const LogName&) const = default;
};
struct LogFile {
    LogName name;
    std::string path;
    std::uint64_t bytes = 0;
    bool complete = false;  // the node has sent its last byte
    storage::LogCuts cuts{};
};

std::uint64_t free_bytes(const std::string& directory);  // unlimited if the file system reports no size

Result<std::vector<LogFile>> list_logs(const std::string& directory, RunId run);  // sorted by attempt, rank, stream
std::vector<LogFile> log_files(const std::string& directory, RunId run);          // empty if they cannot be listed

void forget_logs(const std::string& directory, RunId run);
Status sync_logs(const std::string& directory);  // makes all written logs durable; blocks, call it on the pool

// Any thread may read the files. One thread at a time writes them.
class LogStore {
  public:
    using FreeBytes = std::function<std::uint64_t(const std::string& directory)>;
    // `reserve`: bytes that logs leave free on their disk. `share`: bytes of each user's logs.
    explicit LogStore(std::string directory, std::uint64_t reserve = 0, FreeBytes free = free_bytes,
                      LogShares::ShareOfUser share = logs_of_user)
        : directory_(std::move(directory)),
          reserve_(reserve),
          free_(std::move(free)),
          shares_(directory_, std::move(share)) {}

    struct Piece {
        LogName name;
        std::uint64_t offset = 0;
        std::string bytes;
        std::uint64_t lost = 0;  // number of bytes from `offset` on that the node no longer has; then `bytes` is empty
        bool last = false;
        std::int64_t wall_ms = 0;
        std::string user{};  // the run's user
    };
    std::uint64_t size_of(const LogName& name) const;
    Result<std::uint64_t> take(const Piece& piece);  // returns the file's size afterwards; full: the reserve is reached
    // Returns true if the reserve was reached, and the free space has not been a quarter above it since.
    bool waits_for_room();
    bool waiting() const { return waits_; }  // the last result of waits_for_room
    void forget(RunId run);
    std::map<RunId, std::uint64_t> changed_sizes() { return shares_.changed_sizes(); }  // see LogShares
    std::vector<LogFile> files(RunId run) const { return log_files(directory_, run); }
    const std::string& directory() const { return directory_; }

  private:
    std::string path_of(const LogName& name) const;
    Result<std::uint64_t> take_lost(const Piece& piece, const std::string& path, std::uint64_t have);
    std::string directory_;
    std::uint64_t reserve_;
    FreeBytes free_;
    LogShares shares_;
    std::atomic<bool> waits_ = false;
};

// The index of one log, which gives the time of the byte at an offset. A rank that prints for weeks has millions of
// marks, so only a part of them is in memory. No file stays open in between.
class LogTimes {
  public:
    struct Mark {
        std::uint64_t offset = 0;
        std::int64_t wall_ms = 0;
    };
    explicit LogTimes(const std::string& log_path);
    std::int64_t at(std::uint64_t offset);  // 0: unknown
    // True if the index could not be read for another reason than that it is missing. Then `at` may have been wrong.
    bool failed() const { return failed_; }

  private:
    void load(std::uint64_t offset);
    std::string path_;
    std::vector<Mark> window_;  // from the mark `first_` on
    std::size_t first_ = 0;
    std::uint64_t until_ = 0;  // the window covers offsets from its first mark up to this
    bool failed_ = false;
};

}  // namespace rtrain::head

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
    bool complete = false;  // true: the node has sent the log's last byte
    storage::LogCuts cuts{};
};

// free bytes of the directory's disk; the largest number if the file system does not report them
std::uint64_t free_bytes(const std::string& directory);

Result<std::vector<LogFile>> list_logs(const std::string& directory, RunId run);  // sorted by attempt, rank, stream
// the run's logs; empty if they cannot be listed
std::vector<LogFile> log_files(const std::string& directory, RunId run);

void forget_logs(const std::string& directory, RunId run);
// makes all written logs durable; blocks, so it must be called on the pool
Status sync_logs(const std::string& directory);

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
        // number of bytes from `offset` on that the node has lost; if it is not 0, `bytes` is empty
        std::uint64_t lost = 0;
        bool last = false;
        std::int64_t wall_ms = 0;
        std::string user{};  // name of the run's user
    };
    std::uint64_t size_of(const LogName& name) const;
    // writes the piece and returns the file's size afterwards; Error `full`: the reserve is reached
    Result<std::uint64_t> take(const Piece& piece);
    // Returns true if logs must wait for disk space: the reserve was reached, and since then a quarter more than the
    // reserve has never been free.
    bool waits_for_room();
    bool waiting() const { return waits_; }  // the last result of waits_for_room
    void forget(RunId run);
    // calls LogShares::changed_sizes
    std::map<RunId, std::uint64_t> changed_sizes() { return shares_.changed_sizes(); }
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

// The index of one log, which returns the time at which a byte was written. A rank that prints for weeks has millions
// of index entries, so only a part of them is in memory. No file stays open between calls.
class LogTimes {
  public:
    struct Mark {
        std::uint64_t offset = 0;
        std::int64_t wall_ms = 0;
    };
    explicit LogTimes(const std::string& log_path);
    std::int64_t at(std::uint64_t offset);  // wall clock; 0: unknown
    // True if the index exists but could not be read. Then results of `at` may have been wrong.
    bool failed() const { return failed_; }

  private:
    void load(std::uint64_t offset);
    std::string path_;
    std::vector<Mark> window_;  // consecutive entries of the index, beginning with the entry number `first_`
    std::size_t first_ = 0;
    std::uint64_t until_ = 0;  // the window covers offsets from its first mark up to this
    bool failed_ = false;
};

}  // namespace rtrain::head

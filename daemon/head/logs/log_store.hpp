// Workers' logs on the head: <data>/logs/<run>/attempt-000002/rank-00000.out, byte for byte as on the node, beside each
// an index of when its pieces came. Pieces say where they belong: a repeat is written once, a gap is not written at
// all, and the answer in both cases is how far the file goes. A user's logs stay within a part of the disk: what is
// more loses its middle (base/log_cuts.hpp), as a log does whose middle its node has dropped.
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

inline constexpr std::uint64_t log_complete_mark = ~0ull;  // the offset of the index's mark "complete"

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

std::uint64_t free_bytes(const std::string& directory);  // of its file system; one that does not say is roomy

Result<std::vector<LogFile>> list_logs(const std::string& directory, RunId run);  // by attempt, rank, stream
std::vector<LogFile> log_files(const std::string& directory, RunId run);          // none where they cannot be listed

void forget_logs(const std::string& directory, RunId run);
Status sync_logs(const std::string& directory);  // everything written so far is on disk; blocks: for the pool

// Files are read by anybody, and written by one thread at a time.
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
        std::uint64_t lost = 0;  // so many bytes from `offset` on are nowhere any more; `bytes` is empty then
        bool last = false;
        std::int64_t wall_ms = 0;
        std::string user{};  // whose run it is
    };
    std::uint64_t size_of(const LogName& name) const;
    Result<std::uint64_t> take(const Piece& piece);  // the file's size afterwards; full: the reserve is reached
    // Returns whether the reserve was reached, and there has not been a quarter more than it since.
    bool waits_for_room();
    bool waiting() const { return waits_; }  // as it was last seen
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

// The index of one log: when the byte at an offset came. A rank that prints for weeks has millions of marks, so a part
// of them is held at a time. Nothing stays open in between.
class LogTimes {
  public:
    struct Mark {
        std::uint64_t offset = 0;
        std::int64_t wall_ms = 0;
    };
    explicit LogTimes(const std::string& log_path);
    std::int64_t at(std::uint64_t offset);  // 0: unknown
    // Whether the index could not be read for another reason than that it is not there: `at` may have been wrong.
    bool failed() const { return failed_; }

  private:
    void load(std::uint64_t offset);
    std::string path_;
    std::vector<Mark> window_;  // from the mark `first_` on
    std::size_t first_ = 0;
    std::uint64_t until_ = 0;  // the window tells of offsets from its first mark's up to this
    bool failed_ = false;
};

}  // namespace rtrain::head

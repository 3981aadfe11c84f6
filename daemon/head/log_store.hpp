// Workers' logs on the head: <data>/logs/<run>/attempt-000002/rank-00000.out, byte for byte as on the node, beside each
// an index of when its pieces came. Pieces say where they belong: a repeat is written once, a gap is not written at
// all, and the answer in both cases is how far the file goes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scheduler/ids.hpp"
#include "scheduler/result.hpp"

namespace rtrain::head {

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
};

class LogStore {
  public:
    explicit LogStore(std::string directory) : directory_(std::move(directory)) {}

    struct Piece {
        LogName name;
        std::uint64_t offset = 0;
        std::string bytes;
        bool last = false;
        std::int64_t wall_ms = 0;
    };
    Result<std::uint64_t> take(const Piece& piece);  // the file's size afterwards
    std::vector<LogFile> files(RunId run) const;     // by attempt, rank, stream
    void forget(RunId run) const;
    Status sync() const;  // everything taken so far is on disk; blocks: for the pool
    const std::string& directory() const { return directory_; }

  private:
    std::string path_of(const LogName& name) const;
    std::string directory_;
};

// When the byte at an offset came, from the index.
struct LogTimes {
    struct Mark {
        std::uint64_t offset = 0;
        std::int64_t wall_ms = 0;
    };
    std::vector<Mark> marks;
    std::int64_t at(std::uint64_t offset) const;  // 0: unknown
};
LogTimes read_times(const std::string& log_path);

}  // namespace rtrain::head

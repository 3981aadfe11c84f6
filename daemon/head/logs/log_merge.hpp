// Merges the lines of several logs by their time into one text, piece by piece. The whole text is never in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/head/logs/log_lines.hpp"
#include "daemon/head/logs/log_position.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

// All functions read files, so they must be called on the pool, or on a server's threads for files.
class LogMerge {
  public:
    // `last`: whether an unfinished last line counts as a line, in files that may still grow.
    LogMerge(std::vector<LogFile> files, LogQuestion question, Unfinished last);
    LogMerge(LogMerge&&) noexcept;
    ~LogMerge();

    // Returns the next lines (application/jsonl). A piece may be empty if much must be read before the next line is
    // found. Returns nullopt if a file could not be read; then the answer is incomplete.
    std::optional<net::MadePiece> next();
    // Returns the position after all lines of this answer. Lines that are added later are not included.
    LogPosition end() const;
    // Returns the most bytes of memory that the object needs until its last piece, for lines of any length: a little
    // for each file, and parts of a few files.
    std::size_t memory() const;

  private:
    class Source;
    struct Allowed;  // the bytes that may be read for one piece
    bool seek_tail(Allowed& allowed);
    bool begin(Allowed& allowed);
    void wait_for(std::size_t source, Allowed& allowed);
    void give_first(std::string& out, Allowed& allowed);
    void touch(std::size_t source);

    LogQuestion question_;
    std::vector<Source> sources_;
    std::size_t sought_ = 0, begun_ = 0;  // numbers of sources that were moved to their last lines, and that have begun
    std::uint64_t lines_ = 0, skipped_ = 0;
    std::set<std::pair<std::int64_t, std::size_t>> first_;  // pairs of time and source: the next line of each source
    std::size_t held_ = 0;                                  // bytes that all sources hold of their files
    std::size_t touched_ = 0;                               // index of the source that was read last
};

}  // namespace rtrain::head

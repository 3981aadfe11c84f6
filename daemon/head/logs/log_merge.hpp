// The lines of several logs as one text, merged by the time they came and made piece by piece: the whole is never held.
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

// Everything here reads files: for the pool, or a server's threads for files.
class LogMerge {
  public:
    // `last`: whether a last line without its end is one, in files that may still grow.
    LogMerge(std::vector<LogFile> files, LogQuestion question, Unfinished last);
    LogMerge(LogMerge&&) noexcept;
    ~LogMerge();

    // The next lines (application/jsonl). A piece is empty where much has to be read for the next line. None: a file
    // is there but could not be read; the answer is not whole.
    std::optional<net::MadePiece> next();
    // The position behind all lines that this gives: lines that come to the files later are not among them.
    LogPosition end() const;
    // The most memory that this needs until its last piece, however long the lines are: some for each file, and parts
    // of a few files.
    std::size_t memory() const;

  private:
    class Source;
    struct Allowed;  // to be read for one piece
    bool seek_tail(Allowed& allowed);
    bool begin(Allowed& allowed);
    void wait_for(std::size_t source, Allowed& allowed);
    void give_first(std::string& out, Allowed& allowed);
    void touch(std::size_t source);

    LogQuestion question_;
    std::vector<Source> sources_;
    std::size_t sought_ = 0, begun_ = 0;  // sources
    std::uint64_t lines_ = 0, skipped_ = 0;
    std::set<std::pair<std::int64_t, std::size_t>> first_;  // each source's next line: time, source
    std::size_t held_ = 0;                                  // bytes of parts of files
    std::size_t touched_ = 0;                               // the source that was read last
};

}  // namespace rtrain::head

// The lines of several logs as one text, merged by the time they came and made piece by piece: the whole is never held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
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

    // The next lines (application/jsonl). A piece is empty where much has to be read for the next line.
    net::MadePiece next();
    // Behind all lines that this gives: what comes to the files later is not among them.
    LogPosition end() const;

  private:
    class Source;
    bool seek_tail(std::size_t& may_read);
    bool begin(std::size_t& may_read);
    void wait_for(std::size_t source, std::size_t& may_read);

    LogQuestion question_;
    std::vector<std::unique_ptr<Source>> sources_;
    std::size_t sought_ = 0, begun_ = 0;  // sources
    std::uint64_t lines_ = 0, skipped_ = 0;
    std::set<std::pair<std::int64_t, std::size_t>> first_;  // each source's next line: time, source
};

}  // namespace rtrain::head

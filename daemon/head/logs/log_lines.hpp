// Lines of logs: which files a question means, and reading them line by line with the time each came.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/head/base/number_ranges.hpp"
#include "daemon/head/logs/log_store.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

struct LogQuestion {
    std::optional<NumberRanges> ranks;     // none: all
    std::optional<NumberRanges> attempts;  // none: all
    std::set<std::string> streams;         // empty: all
    std::int64_t since_wall_ms = 0;
    std::optional<std::size_t> tail;
};
struct LogWords {  // as in the query
    std::string rank, attempt, stream, since_ms, tail;
};
Result<LogQuestion> log_question(const Cluster& cluster, RunId run, const LogWords& words, std::int64_t now_wall_ms);
bool means(const LogQuestion& question, const LogName& name);

std::string line_json(const LogName& name, std::int64_t wall_ms, const std::string& line);
// A line for a follower that shows states of lines (line_states.hpp): `state` is the newest state of a line that was
// written over, or empty.
enum class LineEnd { written, not_yet };
std::string line_with_state_json(const LogName& name, std::int64_t wall_ms, const std::string& line,
                                 const std::string& state, LineEnd end);
std::string state_json(const LogName& name, std::int64_t wall_ms, const std::string& state);

// Takes up to `bytes_at_most` of whole lines from `offset` on (the last one also without its end when `rest`), and
// moves `offset` behind them. A line longer than that is cut into pieces. The note in the place of a part of the log
// that is gone is a line, and comes alone.
struct ReadLine {
    std::uint64_t offset = 0;
    std::string text;
    bool has_end = true;  // a newline stands behind it
};
enum class Unfinished { wait, take };
std::vector<ReadLine> read_lines(const std::string& path, std::uint64_t& offset, std::size_t bytes_at_most,
                                 Unfinished last);
// The bytes from `offset` on, `bytes_at_most` of them. Empty: none are there, or the file cannot be read.
std::string read_bytes(const std::string& path, std::uint64_t offset, std::size_t bytes_at_most);

}  // namespace rtrain::head

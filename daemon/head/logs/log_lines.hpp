// Selects the log files that a query asks for, and reads them line by line, each with the time at which the node read
// it.
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
    std::optional<NumberRanges> ranks;     // selected ranks; nullopt: all
    std::optional<NumberRanges> attempts;  // selected attempts; nullopt: all
    std::set<std::string> streams;         // selected streams ("out", "err"); empty: all
    std::int64_t since_wall_ms = 0;
    std::optional<std::size_t> tail;
};
struct LogWords {  // the query parameters as texts
    std::string rank, attempt, stream, since_ms, tail;
};
Result<LogQuestion> log_question(const Cluster& cluster, RunId run, const LogWords& words, std::int64_t now_wall_ms);
bool means(const LogQuestion& question, const LogName& name);

std::string line_json(const LogName& name, std::int64_t wall_ms, const std::string& line);
// Returns a line as JSON for a follower that shows states of lines (line_states.hpp). `state`: the newest state of an
// overwritten line, or empty.
enum class LineEnd { written, not_yet };
std::string line_with_state_json(const LogName& name, std::int64_t wall_ms, const std::string& line,
                                 const std::string& state, LineEnd end);
std::string state_json(const LogName& name, std::int64_t wall_ms, const std::string& state);

// Reads at most `bytes_at_most` of whole lines from `offset` on, and moves `offset` behind them. With `rest`, also
// reads an unfinished last line. A line that is too long is returned in pieces. A removed part is replaced by a note,
// which is a line and is returned alone.
struct ReadLine {
    std::uint64_t offset = 0;
    std::string text;
    bool has_end = true;  // true: a newline ends the line
};
enum class Unfinished { wait, take };
std::vector<ReadLine> read_lines(const std::string& path, std::uint64_t& offset, std::size_t bytes_at_most,
                                 Unfinished last);
// Returns the bytes from `offset` on, at most `bytes_at_most`. Empty if there are none, or if the file cannot be read.
std::string read_bytes(const std::string& path, std::uint64_t offset, std::size_t bytes_at_most);

}  // namespace rtrain::head

// Logs that lost a part of their middle: the first bytes and the newest ones stay. Bytes that stay keep their offset in
// the file, so positions of readers stay right. The parts that are gone are listed in <log>.cuts, and hold no disk
// space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rtrain::storage {

struct LogCut {  // the bytes from `begin` to before `end` are gone
    std::uint64_t begin = 0, end = 0;
    bool operator==(const LogCut&) const = default;
};
// Invariant: sorted; begin < end of each; the end of one < the begin of the next; log_cuts_most at most.
using LogCuts = std::vector<LogCut>;
inline constexpr std::size_t log_cuts_most = 64;
inline constexpr std::uint64_t log_first_most = 64 << 10;  // bytes that stay of a log's beginning

LogCuts log_cuts(const std::string& log);  // as listed on disk; empty: the log is whole, or its list cannot be read
// Adds `cut`. Where there are too many then, the smallest part between two of them is cut too.
void add_cut(LogCuts& cuts, LogCut cut);
std::uint64_t bytes_cut(const LogCuts& cuts, std::uint64_t begin, std::uint64_t end);  // between two offsets
// The first cut that ends behind `offset`: it holds the offset or comes behind it. Null: there is none.
const LogCut* cut_from(const LogCuts& cuts, std::uint64_t offset);
std::string cut_note(const LogCut& cut);  // the line that readers get in its place, without its end

// The cut that leaves `most` bytes of a log of `size` bytes: its beginning, a quarter of `most` but at most
// log_first_most, and its newest bytes.
LogCut middle_of(std::uint64_t size, const LogCuts& cuts, std::uint64_t most);
// The same cut, made larger so that it begins and ends at ends of lines where some are near.
LogCut at_line_ends(const std::string& log, LogCut cut);
// The largest size at which the sizes together are `most`, where a larger one is made as small as that.
std::uint64_t level_of(std::vector<std::uint64_t> sizes, std::uint64_t most);

// Lists the cuts on disk. Returns 0, or the error's number.
int write_cuts(const std::string& log, const LogCuts& cuts);
// Lists the cuts, then frees their disk space. Returns 0, or the error's number: EOPNOTSUPP where the file system
// cannot free a part of a file.
int cut_log(const std::string& log, const LogCuts& cuts);

}  // namespace rtrain::storage

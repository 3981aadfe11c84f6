// Removes the middle of logs: the first bytes and the newest ones stay. Remaining bytes keep their offset in the file,
// so readers' positions stay valid. The removed parts are listed in <log>.cuts and use no disk space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rtrain::storage {

struct LogCut {  // the bytes from `begin` to before `end` are removed
    std::uint64_t begin = 0, end = 0;
    bool operator==(const LogCut&) const = default;
};
// Invariant: sorted, with gaps between the cuts; begin < end in each; at most log_cuts_most.
using LogCuts = std::vector<LogCut>;
inline constexpr std::size_t log_cuts_most = 64;
inline constexpr std::uint64_t log_first_most = 64 << 10;  // bytes that stay at a log's beginning

LogCuts log_cuts(const std::string& log);  // the list on disk; empty if the log is complete, or the list is unreadable
// Adds `cut`. If there are too many cuts then, the smallest part between two of them is cut too.
void add_cut(LogCuts& cuts, LogCut cut);
// Number of removed bytes between two offsets.
std::uint64_t bytes_cut(const LogCuts& cuts, std::uint64_t begin, std::uint64_t end);
// Returns the first cut that ends behind `offset`; null if there is none.
const LogCut* cut_from(const LogCuts& cuts, std::uint64_t offset);
std::string cut_note(const LogCut& cut);  // the line that readers get in its place, without the line end

// Returns the cut that leaves `most` bytes of a log of `size` bytes: its beginning (a quarter of `most`, at most
// log_first_most) and its newest bytes.
LogCut middle_of(std::uint64_t size, const LogCuts& cuts, std::uint64_t most);
// Returns the cut, enlarged to begin and end at nearby ends of lines.
LogCut at_line_ends(const std::string& log, LogCut cut);
// Returns the largest size to which all larger sizes must be reduced so that the sum is `most`.
std::uint64_t level_of(std::vector<std::uint64_t> sizes, std::uint64_t most);

// Lists the cuts on disk. Returns 0, or the error's number.
int write_cuts(const std::string& log, const LogCuts& cuts);
// Lists the cuts, then frees their disk space. Returns 0, or the error's number: EOPNOTSUPP where the file system
// cannot free a part of a file.
int cut_log(const std::string& log, const LogCuts& cuts);

}  // namespace rtrain::storage

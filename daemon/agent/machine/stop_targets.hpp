// Chooses the processes of a rank that get SIGTERM when the rank must end. Pure: a decision over a small table of
// processes, which workers/stop_signal.cpp reads from /proc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rtrain::agent {

// A process, identified by pid and start time. Two processes with the same pid differ in the start time.
struct ProcessId {
    std::int64_t pid = 0;
    std::uint64_t start = 0;  // in clock ticks since boot
    bool operator==(const ProcessId&) const = default;
};

struct ProcessFacts {
    ProcessId id{};
    std::int64_t parent = 0;       // the parent's pid
    std::int64_t user = 0;         // the real user id
    bool catches_sigterm = false;  // false: SIGTERM has its default action, or is ignored
    bool has_ended = false;        // it is a zombie
    std::string program{};         // the name of its executable, without folders
};
using ProcessTable = std::map<std::int64_t, ProcessFacts>;  // key: pid

// Returns the numbers of the processes from `top` down to `below`, both included. Empty: `below` does not descend from
// `top`, or one of them belongs to another user than `top`.
std::vector<std::int64_t> line_of_descent(const ProcessTable& table, std::int64_t top, std::int64_t below);

// Returns the processes that get SIGTERM: the main process, or processes that it has started.
// - A process that catches SIGTERM gets it itself.
// - A process that does not, and is an ancestor of the holder, passes the signal to the next process towards the
// holder.
// - A shell that does not, and has no holder below it, passes the signal to its children. A shell without children gets
//   it itself.
// - Any other process gets it itself.
// `holder`: the process that holds the rank's place; 0: none does. Returns main processes or their descendants only,
// and only those of main's user.
std::vector<std::int64_t> stop_targets(const ProcessTable& table, std::int64_t main, std::int64_t holder);

bool is_shell(const ProcessFacts& process);

}  // namespace rtrain::agent

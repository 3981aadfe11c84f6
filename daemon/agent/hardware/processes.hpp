// Reads processes from /proc. A process that ends meanwhile is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/agent/machine/stop_targets.hpp"

namespace rtrain::agent {

// Returns the process with its start time, which is 0 if there is no such process.
ProcessId process_of(std::int64_t pid);
bool still_runs(const ProcessId& process);  // false also for a zombie
// Nullopt if there is no such process, or if it cannot be read.
std::optional<ProcessFacts> facts_of(std::int64_t pid);
std::vector<std::int64_t> children_of(std::int64_t pid);  // at most 256, of its first 64 threads
std::optional<std::int64_t> parent_of(std::int64_t pid);  // nullopt if this process cannot see such a process
// Returns the process and its descendants, at most 4,096.
std::vector<std::int64_t> with_descendants(std::int64_t pid);
// Returns true if the process is one of `roots`, or descends from one.
bool descends(std::int64_t pid, const std::set<std::int64_t>& roots);
// Returns the shim that started a worker, which adopts the worker's orphans. Returns the worker itself if it has none.
std::int64_t shim_of(std::int64_t worker);

}  // namespace rtrain::agent

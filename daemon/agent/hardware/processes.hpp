// What /proc says of processes. Processes come and go meanwhile: one that is not there any more is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/agent/machine/stop_targets.hpp"

namespace rtrain::agent {

// The start is 0 where there is no such process.
ProcessId process_of(std::int64_t pid);
bool still_runs(const ProcessId& process);                // false also for one that has ended and is not waited for yet
std::optional<ProcessFacts> facts_of(std::int64_t pid);   // nullopt: there is no such process, or it cannot be read
std::vector<std::int64_t> children_of(std::int64_t pid);  // at most 256, of its first 64 threads
std::optional<std::int64_t> parent_of(std::int64_t pid);  // nullopt: there is no such process (for us)
// The process and what it and its descendants have started, at most 4,096.
std::vector<std::int64_t> with_descendants(std::int64_t pid);
// Whether the process is one of `roots`, or descends from one.
bool descends(std::int64_t pid, const std::set<std::int64_t>& roots);
// The shim that started a worker: orphans of the worker become its children. The worker itself where there is none.
std::int64_t shim_of(std::int64_t worker);

}  // namespace rtrain::agent

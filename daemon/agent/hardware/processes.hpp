// Which processes descend from which, as /proc tells. Processes come and go meanwhile: one that is not there any more
// is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rtrain::agent {

std::optional<std::int64_t> parent_of(std::int64_t pid);  // nullopt: there is no such process (for us)
// The process and what it and its descendants have started, at most 4,096.
std::vector<std::int64_t> with_descendants(std::int64_t pid);
// Whether the process is one of `roots`, or descends from one.
bool descends(std::int64_t pid, const std::set<std::int64_t>& roots);
// The shim that started a worker: orphans of the worker become its children. The worker itself where there is none.
std::int64_t shim_of(std::int64_t worker);

}  // namespace rtrain::agent

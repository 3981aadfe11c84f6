// The measured memory of ranks, and the limit of their run. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/agent/machine/templates.hpp"

namespace rtrain::agent {

struct ProcessMemory {
    std::int64_t pid = 0, bytes = 0;
    std::string command{};
    bool operator==(const ProcessMemory&) const = default;
};
struct RankMemory {
    std::int64_t bytes = 0;                // sum over all processes of the rank
    std::vector<ProcessMemory> largest{};  // the largest first; empty: below the limit
    bool operator==(const RankMemory&) const = default;
};
struct MemoryMeasured {  // input of the machine with the ranks that have a limit
    std::map<AttemptKey, std::map<std::uint32_t, RankMemory>> ranks{};
    bool operator==(const MemoryMeasured&) const = default;
};

// Returns "used 312 MiB of its 300 MiB of memory; largest processes: python train.py (290 MiB), ...".
std::string above_limit(const RankMemory& used, std::int64_t limit);

}  // namespace rtrain::agent

// The memory of a rank: its worker and all processes started by the worker. The measure is the proportional set size of
// anonymous and shared memory: a page that n processes share counts as 1/n in each. So loaders do not count the same
// tensor twice, and a worker forked from a template counts its share of the template's pages. Pages of files do not
// count, since the kernel drops them when memory is short.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/agent/machine/memory_limit.hpp"

namespace rtrain::agent {

// Returns the worker, its descendants, and its orphans, which the shim or the keeper has adopted.
std::vector<std::int64_t> processes_of_worker(std::int64_t worker);
// Returns an upper bound of the processes' memory, in which shared pages count in full. It is cheap to read.
std::int64_t memory_bound(const std::vector<std::int64_t>& processes);
// Returns the exact amount, and the largest processes where it is above `limit`. It costs the kernel a walk over all of
// their pages.
RankMemory memory_of(const std::vector<std::int64_t>& processes, std::int64_t limit);

// The memory of one rank over several measurements. An exact measurement takes at most a twentieth of a processor,
// unless the rank may have exceeded its limit since the last one.
class MeasuredRank {
  public:
    std::vector<std::int64_t> processes{};  // empty: they must be found
    RankMemory look(std::int64_t limit, std::int64_t now_ms);

  private:
    std::int64_t exact_bytes_ = 0, bound_then_ = 0, exact_again_ms_ = 0;  // values of the last exact measurement
};

}  // namespace rtrain::agent

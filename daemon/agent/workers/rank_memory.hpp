// The memory of a rank: of its worker and of what the worker has started. The measure is the proportional set size of
// anonymous and shared memory. A page that n processes share counts as 1/n of a page in each: a rank's loaders do not
// count the same tensor twice, and a worker that was forked from a template pays its share of the template's pages.
// Pages of files do not count: the kernel takes them back when memory is short.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/agent/machine/memory_limit.hpp"

namespace rtrain::agent {

// The worker, its descendants, and its orphans, which the shim or the keeper has taken.
std::vector<std::int64_t> processes_of_worker(std::int64_t worker);
// Returns what the processes have at most: pages that they share count in full. It is quick to read.
std::int64_t memory_bound(const std::vector<std::int64_t>& processes);
// Returns the exact amount, and the largest processes where it is above `limit`. It costs the kernel a walk over all of
// their pages.
RankMemory memory_of(const std::vector<std::int64_t>& processes, std::int64_t limit);

// The memory of one rank from look to look. A look that needs the exact amount costs at most a twentieth of a
// processor, unless the rank may have come above its limit since the last one.
class MeasuredRank {
  public:
    std::vector<std::int64_t> processes{};  // empty: to be found
    RankMemory look(std::int64_t limit, std::int64_t now_ms);

  private:
    std::int64_t exact_bytes_ = 0, bound_then_ = 0, exact_again_ms_ = 0;  // of the last exact amount
};

}  // namespace rtrain::agent

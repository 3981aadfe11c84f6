// Sums over the workers of each run. Counters of workers start again with each attempt, and are missing while a node is
// cut off. Only their growth is added, so that a sum never falls.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "daemon/metrics/families.hpp"

namespace rtrain::metrics {

inline constexpr std::size_t workers_shown_most = 5'000;

// Decides which workers have samples of their own: all, or with more than `workers_shown_most` only rank 0 and the
// slowest rank of each run.
std::set<std::pair<AttemptId, Rank>> shown_workers(const Live& live);

class WorkerTotals {
  public:
    void add_samples(Families& families, const Records& records, const Live& live);

  private:
    struct Counters {
        double cpu_seconds = 0;
        LiveTraffic traffic{};
    };
    static Counters counters_of(const LiveWorker& worker);

    std::mutex mutex_;
    std::map<std::pair<AttemptId, Rank>, Counters> last_;
    std::map<RunId, Counters> totals_;
};

}  // namespace rtrain::metrics

// Counts how often a value was at most each of some bounds, and sums all values. Safe for use from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace rtrain::metrics {

struct HistogramCounts {
    std::span<const double> bounds;
    std::vector<std::uint64_t> at_most;  // one per bound, and one for all values
    double sum = 0;
};

class Histogram {
  public:
    explicit Histogram(std::span<const double> bounds);  // ascending bounds that outlive the histogram
    void observe(double value);
    HistogramCounts counts() const;

  private:
    const std::span<const double> bounds_;
    mutable std::mutex mutex_;
    std::vector<std::uint64_t> in_bucket_;  // the last bucket is above every bound
    double sum_ = 0;
};

}  // namespace rtrain::metrics

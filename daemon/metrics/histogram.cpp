// Each value is counted once, in its bucket. The cumulative sums are computed when the histogram is read.
#include "daemon/metrics/histogram.hpp"

#include <algorithm>

namespace rtrain::metrics {

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds), in_bucket_(bounds.size() + 1) {}

void Histogram::observe(double value) {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    std::lock_guard held(mutex_);
    ++in_bucket_[static_cast<std::size_t>(bucket)];
    sum_ += value;
}

HistogramCounts Histogram::counts() const {
    HistogramCounts counts{.bounds = bounds_, .at_most = {}, .sum = 0};
    {
        std::lock_guard held(mutex_);
        counts.at_most = in_bucket_;
        counts.sum = sum_;
    }
    for (std::size_t at = 1; at < counts.at_most.size(); ++at) counts.at_most[at] += counts.at_most[at - 1];
    return counts;
}

}  // namespace rtrain::metrics

// See memory_rise.hpp.
#include "scheduler/goodput/memory_rise.hpp"

#include <algorithm>
#include <span>

namespace rtrain {
namespace {

using Samples = std::span<const MemoryHistory::Sample>;

constexpr std::size_t samples_most = 64, samples_least = 12;
constexpr std::int64_t apart_most_ms = 80'000, span_least_ms = 60'000;
constexpr double fit_least = 0.95, rise_least_bytes = 16 << 20, rise_least_share = 0.05;

struct FittedLine {
    double bytes_per_second = 0, fit = 0;  // slope of the line, and `fit`: its coefficient of determination R²
};

// Fits a line by least squares, relative to the first sample, so that large numbers do not cancel.
FittedLine fitted(Samples samples) {
    const MemoryHistory::Sample& first = samples.front();
    const auto count = static_cast<double>(samples.size());
    double x = 0, y = 0;
    for (const auto& sample : samples) {
        x += static_cast<double>(sample.at_ms - first.at_ms) / 1e3 / count;
        y += static_cast<double>(sample.bytes - first.bytes) / count;
    }
    double xx = 0, xy = 0, yy = 0;
    for (const auto& sample : samples) {
        const double dx = static_cast<double>(sample.at_ms - first.at_ms) / 1e3 - x;
        const double dy = static_cast<double>(sample.bytes - first.bytes) - y;
        xx += dx * dx, xy += dx * dy, yy += dy * dy;
    }
    if (xx <= 0 || yy <= 0) return {};
    return {.bytes_per_second = xy / xx, .fit = xy * xy / (xx * yy)};
}

}  // namespace

void MemoryHistory::add(std::int64_t at_ms, std::int64_t bytes) {
    if (bytes <= 0) return;  // the agent could not measure the memory
    if (!samples_.empty() && at_ms - samples_.back().at_ms < every_ms_) return;
    samples_.push_back({at_ms, bytes});
    if (samples_.size() <= samples_most) return;
    if (every_ms_ >= apart_most_ms) {
        samples_.erase(samples_.begin());
        return;
    }
    for (std::size_t kept = 0; kept < samples_.size(); kept += 2) samples_[kept / 2] = samples_[kept];
    samples_.resize((samples_.size() + 1) / 2);
    every_ms_ *= 2;
}

std::optional<double> memory_rise(const std::vector<MemoryHistory::Sample>& samples) {
    if (samples.size() < samples_least) return std::nullopt;
    const double seconds = static_cast<double>(samples.back().at_ms - samples.front().at_ms) / 1e3;
    if (seconds * 1e3 < span_least_ms) return std::nullopt;
    const Samples all(samples);
    const FittedLine whole = fitted(all);
    const double risen = whole.bytes_per_second * seconds;
    const double least = std::max(rise_least_bytes, rise_least_share * static_cast<double>(samples.front().bytes));
    if (whole.fit < fit_least || risen < least) return std::nullopt;
    const FittedLine early = fitted(all.first(all.size() / 2)), late = fitted(all.last(all.size() / 2));
    // The rank fills a cache, and the rise levels off.
    if (late.bytes_per_second < early.bytes_per_second / 2) return std::nullopt;
    return whole.bytes_per_second;
}

}  // namespace rtrain

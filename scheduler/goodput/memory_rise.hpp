// Detects whether a rank's memory rises, and predicts when it runs out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rtrain {

// Samples of one rank's resident memory, at most 64. When they are full, every second one is removed, and further ones
// are taken half as often, until the distance is 80 s. Then the oldest is removed.
class MemoryHistory {
  public:
    struct Sample {
        std::int64_t at_ms = 0, bytes = 0;
    };
    void add(std::int64_t at_ms, std::int64_t bytes);
    const std::vector<Sample>& samples() const { return samples_; }

  private:
    std::vector<Sample> samples_;
    std::int64_t every_ms_ = 5'000;
};

// Returns the rise in bytes per second; nullopt if it is not certain. It is certain if a line fits at least 12 samples
// over at least a minute (R² >= 0.95), the later half rises at least half as fast as the earlier one, and the rise is
// at least a twentieth of the first value and 16 MiB.
std::optional<double> memory_rise(const std::vector<MemoryHistory::Sample>& samples);

}  // namespace rtrain

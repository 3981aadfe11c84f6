// Whether a rank's memory rises, and when it will run out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rtrain {

// Samples of one rank's resident memory, at most 64: when these are full every second one goes, and further ones are
// taken half as often, until one is 80 s behind the other; then the oldest goes.
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

// Returns the bytes by which it rises in a second; nullopt where that is not sure. It is where a line fits at least 12
// samples of at least a minute (R² >= 0.95), the later half rises at least half as fast as the earlier one, and the
// rise is a twentieth of the memory at the beginning, and 16 MiB.
std::optional<double> memory_rise(const std::vector<MemoryHistory::Sample>& samples);

}  // namespace rtrain

// Which samples this rank sees in which order: the same indices as Python's torch.utils.data.DistributedSampler with
// the same seed and epoch, so a run that resumes, or is half C++ and half Python, sees each sample exactly once per
// epoch.
#pragma once

#include <cstdint>
#include <vector>

namespace rtrain::ddp {

struct SamplerOptions {
    enum class Order { shuffled, as_stored } order = Order::shuffled;
    enum class Tail { repeated, dropped } tail = Tail::repeated;  // when the samples do not divide by the ranks
    std::uint64_t seed = 0;
};

class DistributedSampler {
  public:
    DistributedSampler(std::int64_t samples, int rank, int world_size, const SamplerOptions& options = {});
    // This rank's indices of one epoch; every rank gets equally many.
    std::vector<std::int64_t> indices(std::uint64_t epoch) const;
    std::int64_t per_rank() const;

  private:
    std::int64_t samples_;
    int rank_, world_size_;
    SamplerOptions options_;
};

}  // namespace rtrain::ddp

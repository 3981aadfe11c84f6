// Decides which samples this rank sees in which order: the same indices as Python's torch.utils.data.DistributedSampler
// with the same seed and epoch. So a run that resumes, or is half C++ and half Python, sees each sample exactly once
// per epoch.
#pragma once

#include <cstdint>
#include <vector>

namespace rtrain::ddp {

// The order of the samples, and the treatment of samples that do not divide by the ranks. All ranks need the same
// options.
struct SamplerOptions {
    // The order of all samples before they are divided.
    enum class Order {
        shuffled,               // another one in each epoch
        as_stored,              // 0, 1, 2 ...
    } order = Order::shuffled;  // the order of all samples
    // The treatment of samples that do not divide by the ranks.
    enum class Tail {
        repeated,             // the first samples of the epoch are used a second time
        dropped,              // the last samples of the epoch are left out
    } tail = Tail::repeated;  // `dropped` is Python's drop_last=True
    std::uint64_t seed = 0;   // seed of the shuffle; the epoch is added
};

// The samples of one rank. Rank r has the positions r, r + world_size, r + 2 world_size ... of the epoch's order.
class DistributedSampler {
  public:
    // Divides `samples` samples over `world_size` ranks; `rank` counts from 0. Throws std::runtime_error when `samples`
    // or `world_size` is not positive, or there is no such rank.
    DistributedSampler(std::int64_t samples, int rank, int world_size, const SamplerOptions& options = {});
    // Returns this rank's indices of one `epoch`, per_rank() of them.
    std::vector<std::int64_t> indices(std::uint64_t epoch) const;
    // Returns how many samples each rank has in an epoch; every rank has equally many.
    std::int64_t per_rank() const;

  private:
    std::int64_t samples_;
    int rank_, world_size_;
    SamplerOptions options_;
};

}  // namespace rtrain::ddp

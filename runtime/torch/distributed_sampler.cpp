#include "runtime/torch/distributed_sampler.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <stdexcept>
#include <string>

namespace rtrain::ddp {

DistributedSampler::DistributedSampler(std::int64_t samples, int rank, int world_size, const SamplerOptions& options)
    : samples_(samples), rank_(rank), world_size_(world_size), options_(options) {
    if (samples <= 0 || world_size <= 0 || rank < 0 || rank >= world_size) {
        throw std::runtime_error("a sampler of " + std::to_string(samples) + " samples for rank " +
                                 std::to_string(rank) + " of " + std::to_string(world_size) +
                                 " is impossible: samples and ranks are at least 1, ranks count from 0");
    }
}

std::int64_t DistributedSampler::per_rank() const {
    if (options_.tail == SamplerOptions::Tail::dropped) return samples_ / world_size_;
    return (samples_ + world_size_ - 1) / world_size_;
}

std::vector<std::int64_t> DistributedSampler::indices(std::uint64_t epoch) const {
    at::Tensor order;
    if (options_.order == SamplerOptions::Order::shuffled) {
        auto generator = at::detail::createCPUGenerator(options_.seed + epoch);
        order = at::randperm(samples_, generator, at::TensorOptions(at::kLong));
    } else {
        order = at::arange(samples_, at::TensorOptions(at::kLong));
    }
    const auto* stored = order.const_data_ptr<std::int64_t>();
    std::vector<std::int64_t> shard;
    for (std::int64_t i = 0; i < per_rank(); ++i) shard.push_back(stored[(i * world_size_ + rank_) % samples_]);
    return shard;
}

}  // namespace rtrain::ddp

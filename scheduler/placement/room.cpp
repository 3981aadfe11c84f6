// Fits bundles into one node. GPUs are devices, not a sum: 3 x 0.6 does not fit on 2 GPUs.
#include "scheduler/placement/room.hpp"

#include <algorithm>
#include <limits>

namespace rtrain::placing {
namespace {

constexpr Amount whole = units(1);

// Returns the fullest device that takes a fraction; of equal ones the lowest index.
std::optional<std::size_t> fullest_device(const std::vector<Amount>& gpus, Amount demand) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < gpus.size(); ++i)
        if (gpus[i] >= demand && (!best || gpus[i] < gpus[*best])) best = i;
    return best;
}

}  // namespace

std::uint64_t gpu_slots(const std::vector<Amount>& gpus, Amount demand) {
    std::uint64_t count = 0;
    if (demand >= whole) {
        for (const Amount free : gpus) count += free >= whole;
        return count / static_cast<std::uint64_t>(demand.ticks / Amount::per_unit);
    }
    for (const Amount free : gpus) count += static_cast<std::uint64_t>(free.ticks / demand.ticks);
    return count;
}

bool fits_gpus(const std::vector<Amount>& gpus, Amount demand) {
    return demand.ticks == 0 || gpu_slots(gpus, demand) > 0;
}

std::optional<std::vector<GpuShare>> take_gpus(std::vector<Amount>& gpus, Amount demand) {
    std::vector<GpuShare> shares;
    if (demand.ticks == 0) return shares;
    if (!fits_gpus(gpus, demand)) return std::nullopt;
    if (demand < whole) {
        const std::size_t device = *fullest_device(gpus, demand);
        gpus[device] = gpus[device] - demand;
        return std::vector<GpuShare>{{.device = static_cast<std::uint32_t>(device), .amount = demand}};
    }
    std::int64_t wanted = demand.ticks / Amount::per_unit;
    for (std::size_t i = 0; i < gpus.size() && wanted > 0; ++i) {
        if (gpus[i] < whole) continue;
        gpus[i] = gpus[i] - whole;
        shares.push_back({.device = static_cast<std::uint32_t>(i), .amount = whole});
        --wanted;
    }
    return shares;
}

std::uint32_t slots(const Resources& free, const std::vector<Amount>& gpus, const Resources& demand,
                    std::uint32_t limit) {
    std::uint64_t count = limit;
    for (const auto& [name, amount] : demand) {
        if (amount.ticks == 0) continue;
        const std::uint64_t here = name == gpu_key
                                       ? gpu_slots(gpus, amount)
                                       : static_cast<std::uint64_t>(amount_of(free, name).ticks / amount.ticks);
        count = std::min(count, here);
        if (count == 0) return 0;
    }
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, limit));
}

std::uint32_t slots_when_empty(const NodeView& node, const Resources& demand) {
    std::uint64_t count = UINT32_MAX;
    for (const auto& [name, amount] : demand) {
        if (amount.ticks == 0) continue;
        const std::uint64_t gpus = node.gpus_free.size();
        const auto of_gpus = [&](std::int64_t ticks) {
            return ticks >= whole.ticks ? gpus / static_cast<std::uint64_t>(ticks / Amount::per_unit)
                                        : gpus * static_cast<std::uint64_t>(whole.ticks / ticks);
        };
        const std::uint64_t here = name == gpu_key
                                       ? of_gpus(amount.ticks)
                                       : static_cast<std::uint64_t>(amount_of(node.total, name).ticks / amount.ticks);
        count = std::min(count, here);
    }
    return static_cast<std::uint32_t>(count);
}

Amount gpus_free(const std::vector<Amount>& gpus) {
    Amount sum;
    for (const Amount gpu : gpus) sum = sum + gpu;
    return sum;
}

bool Room::fits(const Bundle& bundle) const {
    return matches(bundle.selector, node->labels) && slots(free, gpus, bundle.demand, 1) > 0;
}

std::vector<GpuShare> Room::take(const Bundle& bundle) {
    for (const auto& [name, amount] : bundle.demand)
        if (name != gpu_key && amount.ticks != 0) subtract(free, {{name, amount}});
    ++seated;
    auto shares = take_gpus(gpus, amount_of(bundle.demand, gpu_key));
    RTRAIN_CHECK(shares.has_value(), "GPUs of " + node->id.value);
    return *std::move(shares);
}

}  // namespace rtrain::placing

// Assigns several demands to the devices of one node. Best fit is tried first and nearly always succeeds. Otherwise
// every assignment of the fractions is tried, so that a refusal is a proof.
#include <algorithm>
#include <set>

#include "scheduler/model/limits.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::placing {
namespace {

constexpr Amount whole = units(1);

struct Fractions {
    std::vector<Amount>& gpus;
    const std::vector<Amount>& demands;
    std::vector<std::size_t> order;  // fractions, largest first
    std::vector<std::size_t> device_of;
    std::int64_t budget = limits::device_steps;

    bool seat_from(std::size_t at) {
        if (at == order.size()) return true;
        if (--budget < 0) return false;
        const Amount demand = demands[order[at]];
        std::vector<std::size_t> devices;
        for (std::size_t i = 0; i < gpus.size(); ++i)
            if (gpus[i] >= demand) devices.push_back(i);
        std::stable_sort(devices.begin(), devices.end(),
                         [&](std::size_t a, std::size_t b) { return gpus[a] < gpus[b]; });
        Amount tried;  // A device as full as one that failed would fail too.
        for (const std::size_t device : devices) {
            if (gpus[device] == tried) continue;
            tried = gpus[device];
            gpus[device] = tried - demand;
            device_of[order[at]] = device;
            if (seat_from(at + 1)) return true;
            gpus[device] = tried;
        }
        return false;
    }
};

// In the order of the bundles, places each fraction on the fullest device that takes it.
std::optional<std::vector<std::vector<GpuShare>>> best_fit(std::vector<Amount> gpus,
                                                           const std::vector<Amount>& demands) {
    std::vector<std::vector<GpuShare>> shares(demands.size());
    const auto take = [&](std::size_t i) {
        auto here = take_gpus(gpus, demands[i]);
        if (here) shares[i] = *std::move(here);
        return here.has_value();
    };
    for (std::size_t i = 0; i < demands.size(); ++i)
        if (demands[i] >= whole && !take(i)) return std::nullopt;
    for (std::size_t i = 0; i < demands.size(); ++i)
        if (demands[i] < whole && !take(i)) return std::nullopt;
    return shares;
}

}  // namespace

Shared share_devices(const std::vector<Amount>& gpus, const std::vector<Amount>& demands) {
    Shared answer{.shares = best_fit(gpus, demands), .proved = true};
    if (answer.shares) return answer;
    std::vector<Amount> left = gpus;
    std::vector<std::vector<GpuShare>> shares(demands.size());
    std::set<Amount> sizes;
    Amount sum;
    Fractions fractions{.gpus = left, .demands = demands, .order = {}, .device_of = {}};
    for (std::size_t i = 0; i < demands.size(); ++i) {
        if (demands[i].ticks == 0) continue;
        if (demands[i] < whole) {
            fractions.order.push_back(i);
            sizes.insert(demands[i]);
            sum = sum + demands[i];
            continue;
        }
        auto here = take_gpus(left, demands[i]);
        if (!here) return {};
        shares[i] = *std::move(here);
    }
    // If all fractions are equal, best fit is exact, so its refusal is a proof.
    if (sizes.size() < 2 || sum > gpus_free(left)) return {};
    std::stable_sort(fractions.order.begin(), fractions.order.end(),
                     [&](std::size_t a, std::size_t b) { return demands[a] > demands[b]; });
    fractions.device_of.resize(demands.size());
    if (!fractions.seat_from(0)) return {.shares = std::nullopt, .proved = fractions.budget >= 0};
    for (const std::size_t i : fractions.order)
        shares[i] = {{.device = static_cast<std::uint32_t>(fractions.device_of[i]), .amount = demands[i]}};
    return {.shares = std::move(shares), .proved = true};
}

Shared seat_together(const Candidate& candidate, const GangRequest& request,
                     const std::vector<std::uint32_t>& bundles) {
    Resources left = *candidate.free;
    std::vector<Amount> gpus;
    for (const std::uint32_t index : bundles) {
        const Bundle& bundle = request.bundles[index];
        if (!matches(bundle.selector, candidate.node->labels)) return {};
        for (const auto& [name, amount] : bundle.demand) {
            if (name == gpu_key || amount.ticks == 0) continue;
            const auto entry = left.find(name);
            if (entry == left.end() || entry->second < amount) return {};
            entry->second = entry->second - amount;
        }
        gpus.push_back(amount_of(bundle.demand, gpu_key));
    }
    return share_devices(candidate.gpus, gpus);
}

}  // namespace rtrain::placing

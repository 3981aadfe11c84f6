// See slow_ranks.hpp.
#include "scheduler/goodput/slow_ranks.hpp"

#include <algorithm>
#include <cstddef>

namespace rtrain {

std::optional<SlowRanks> slow_ranks(const std::vector<double>& waits, double least) {
    if (waits.size() < 2) return std::nullopt;
    const auto [low, high] = std::minmax_element(waits.begin(), waits.end());
    const double border = (*low + *high) / 2;
    SlowRanks slow;
    double slow_sum = 0, other_sum = 0;
    for (std::size_t rank = 0; rank < waits.size(); ++rank) {
        if (waits[rank] < border)
            slow.ranks.push_back(static_cast<std::uint32_t>(rank)), slow_sum += waits[rank];
        else
            other_sum += waits[rank];
    }
    const std::size_t count = slow.ranks.size(), others = waits.size() - count;
    if (count == 0 || count > others) return std::nullopt;
    const double base = slow_sum / static_cast<double>(count);
    slow.others_wait = other_sum / static_cast<double>(others) - base;
    slow.mean_wait = slow.others_wait * static_cast<double>(others) / static_cast<double>(waits.size());
    if (slow.others_wait < least) return std::nullopt;
    return slow;
}

}  // namespace rtrain

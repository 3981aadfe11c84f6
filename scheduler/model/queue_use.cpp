// All numbers are whole, so that a replay gives the same means on every machine.
#include "scheduler/model/queue_use.hpp"

#include <algorithm>
#include <array>

namespace rtrain::core {
namespace {

constexpr int decay_bits = 16;  // bits of the fraction of a half-life

constexpr std::uint64_t square_root(unsigned __int128 value) {
    unsigned __int128 low = 0, high = std::uint64_t{1} << 33;
    while (low + 1 < high) {
        const unsigned __int128 middle = (low + high) / 2;
        (middle * middle <= value ? low : high) = middle;
    }
    return static_cast<std::uint64_t>(low);
}

// 2^-(1/2), 2^-(1/4), ... as counts of 1/2^32. Each is the square root of the one before.
constexpr std::array<std::uint64_t, decay_bits> halvings() {
    std::array<std::uint64_t, decay_bits> roots{};
    std::uint64_t last = std::uint64_t{1} << 31;
    for (std::uint64_t& root : roots) root = last = square_root(static_cast<unsigned __int128>(last) << 32);
    return roots;
}
constexpr auto roots = halvings();

Amount scaled(Amount amount, std::uint64_t factor) {
    return {static_cast<std::int64_t>((static_cast<__int128>(amount.ticks) * static_cast<__int128>(factor)) >> 32)};
}

}  // namespace

std::uint64_t decay(Duration passed, Duration half_life) {
    constexpr std::uint64_t unity = std::uint64_t{1} << 32;
    if (passed.ms <= 0) return unity;
    const auto lives = (static_cast<unsigned __int128>(passed.ms) << decay_bits) /
                       static_cast<unsigned __int128>(std::max<std::int64_t>(half_life.ms, 1));
    if (lives >> decay_bits >= 32) return 0;
    std::uint64_t factor = unity >> static_cast<std::uint64_t>(lives >> decay_bits);
    for (int bit = 0; bit < decay_bits; ++bit)
        if ((lives >> (decay_bits - 1 - bit)) & 1U) factor = (factor * roots[static_cast<std::size_t>(bit)]) >> 32;
    return factor;
}

Resources level_at(const QueueUse& use, Time now, Duration half_life) {
    const std::uint64_t remaining = decay(now - use.at, half_life);
    Resources level;
    for (const auto& [name, amount] : use.level) level[name] = scaled(amount, remaining);
    for (const auto& [name, amount] : use.held) {
        Amount& mean = level[name];
        mean = mean + (amount - scaled(amount, remaining));  // the mean never exceeds the larger of `mean` and `amount`
    }
    std::erase_if(level, [](const auto& entry) { return entry.second.ticks == 0; });
    return level;
}

QueueUse charged(const QueueUse& before, Resources held, Time now, Duration half_life) {
    QueueUse use = before;
    use.level = level_at(before, now, half_life);
    use.at = now;
    use.held = std::move(held);
    return use;
}

}  // namespace rtrain::core

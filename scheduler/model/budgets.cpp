// Budgets of GPU hours within a moving window. All numbers are whole, so that a replay gives the same use on every
// machine. See docs/decisions/0071-budgets-of-gpu-hours.md.
#include <algorithm>
#include <set>

#include "scheduler/model/limits.hpp"
#include "scheduler/model/queue_use.hpp"

namespace rtrain::core {
namespace {

// Rounds up, so that a budget never counts less than was used.
std::int64_t gpu_time(Amount gpus, std::int64_t ms) {
    const __int128 ticks = static_cast<__int128>(gpus.ticks) * ms;
    return static_cast<std::int64_t>((ticks + Amount::per_unit - 1) / Amount::per_unit);
}

std::int64_t floor_to(std::int64_t ms, std::int64_t width) {
    const std::int64_t rest = ms % width;
    return ms - (rest < 0 ? rest + width : rest);
}

std::int64_t slice_width(Duration window) { return std::max<std::int64_t>(window.ms / limits::budget_slices, 1); }

void join_oldest(std::vector<GpuTime>& used) {
    used[1].from = used[0].from;
    used[1].gpu_ms += used[0].gpu_ms;
    used.erase(used.begin());
}

}  // namespace

std::optional<Amount> user_budget(const QueueRules& rules, const std::string& user) {
    const auto own = rules.user_gpu_hours_of.find(user);
    return own == rules.user_gpu_hours_of.end() ? rules.user_gpu_hours : own->second;
}

Amount gpu_hours_of(std::int64_t gpu_ms) { return {gpu_ms / 36'000 * (Amount::per_unit / 100)}; }

BudgetUse charged(const BudgetUse& use, Amount held, Time now, Duration window) {
    BudgetUse next = use;
    next.held = held;
    next.at = std::max(now, use.at);
    const std::int64_t begin = next.at.ms - window.ms, width = slice_width(window);
    std::erase_if(next.used, [&](const GpuTime& slice) { return slice.until.ms <= begin; });
    if (use.held.ticks == 0) return next;
    std::int64_t from = std::max(use.at.ms, floor_to(begin, width));
    while (from < next.at.ms) {
        const Time until{floor_to(from, width) + width};
        const std::int64_t end = std::min(until.ms, next.at.ms);
        const std::int64_t gpu_ms = gpu_time(use.held, end - from);
        if (!next.used.empty() && next.used.back().until >= until)
            next.used.back().gpu_ms += gpu_ms;
        else
            next.used.push_back({.from = {from}, .until = until, .gpu_ms = gpu_ms});
        from = end;
    }
    while (next.used.size() > limits::budget_slices_most) join_oldest(next.used);
    return next;
}

std::int64_t gpu_ms_in(const BudgetUse& charged) {
    std::int64_t sum = 0;
    for (const GpuTime& slice : charged.used) sum += slice.gpu_ms;
    return sum;
}

BudgetState budget_state(const std::vector<BudgetUse>& charged, Amount hours, Time now, Duration window) {
    BudgetState state{.limit = gpu_ms_of(hours)};
    // key: the time at which the GPU time leaves the window; value: GPU milliseconds
    std::map<Time, std::int64_t> leaves;
    for (const BudgetUse& use : charged) {
        state.used += gpu_ms_in(use);
        state.held = state.held + use.held;
        for (const GpuTime& slice : use.used) leaves[slice.until + window] += slice.gpu_ms;
    }
    state.used_up = state.used >= state.limit;
    if (!state.used_up) {
        if (state.held.ticks == 0) return state;
        const __int128 left = static_cast<__int128>(state.limit - state.used) * Amount::per_unit;
        const __int128 ms = (left + state.held.ticks - 1) / state.held.ticks;
        state.changes = Time{now.ms + static_cast<std::int64_t>(std::min<__int128>(ms, INT64_MAX / 4))};
        return state;
    }
    if (!leaves.empty()) state.changes = leaves.begin()->first;
    std::int64_t left = state.used;
    for (const auto& [time, gpu_ms] : leaves) {
        left -= gpu_ms;
        if (left + gpu_time(state.held, (time - now).ms) >= state.limit) continue;
        state.frees = time;
        break;
    }
    return state;
}

}  // namespace rtrain::core

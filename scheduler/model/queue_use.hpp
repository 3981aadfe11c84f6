// The past use of a queue: a mean in which the past loses half of its weight in each half-life; and the GPU time of
// budgets, which counts whole until it is older than the budget's window.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/queues.hpp"

namespace rtrain::core {

// 2^-(passed / half_life) as a count of 1/2^32.
std::uint64_t decay(Duration passed, Duration half_life);
// Returns the mean at `now`, given that `held` has not changed since `at`.
Resources level_at(const QueueUse& use, Time now, Duration half_life);
QueueUse charged(const QueueUse& before, Resources held, Time now, Duration half_life);

// budgets.cpp: Returns the user's budget in the queue; nullopt: no limit.
std::optional<Amount> user_budget(const QueueRules& rules, const std::string& user);
constexpr std::int64_t gpu_ms_of(Amount hours) { return hours.ticks * (3'600'000 / Amount::per_unit); }
Amount gpu_hours_of(std::int64_t gpu_ms);  // rounded down to 1/100 hour
// Returns the record at `now`, with the time since `use.at` added and without the time before the window. A slice is a
// thirtieth of the window. It counts until it lies before the window as a whole, so `used` is never below the truth.
BudgetUse charged(const BudgetUse& use, Amount held, Time now, Duration window);
std::int64_t gpu_ms_in(const BudgetUse& charged);
// The use of a budget: of one user, or of all users of a queue.
struct BudgetState {
    std::int64_t used = 0, limit = 0;  // GPU milliseconds
    Amount held;
    bool used_up = false;
    // If the budget is used up: the time at which the first slice leaves the window. Otherwise: the earliest time at
    // which it is used up; nullopt: no GPU is held.
    std::optional<Time> changes;
    // If the budget is used up: the time at which GPU time is free again while the held GPUs stay held. nullopt: not
    // while they are held.
    std::optional<Time> frees;
};
BudgetState budget_state(const std::vector<BudgetUse>& charged, Amount hours, Time now, Duration window);

}  // namespace rtrain::core

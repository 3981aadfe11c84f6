// The budgets of GPU hours that are used up, derived from the records and the time.
#pragma once

#include <optional>
#include <set>

#include "scheduler/index/tables/allocations.hpp"

namespace rtrain {

struct Cluster;

struct SpentBudgets {
    bool known = false;           // false: the records have changed since
    std::set<QueueUser> used_up;  // a queue and a user; no user: the budget of the whole queue
    std::optional<Time> changes;  // nothing changes before this time, unless the records do
    // Two clusters with equal records are equal.
    bool operator==(const SpentBudgets&) const { return true; }
};

namespace core {

bool has_budgets(const Queues& queues);
SpentBudgets spent_budgets(const Cluster& cluster, Time now);
// Returns the present state of one budget, with its use. No user: the budget of the whole queue. nullopt: none.
struct BudgetState;
std::optional<BudgetState> budget_of(const Cluster& cluster, const std::string& queue, const std::string& user,
                                     Time now);
// Returns the GPUs that users hold in queues with budgets and in the queues below them.
std::map<QueueUser, Amount> held_in_budgets(const Cluster& cluster);

}  // namespace core
}  // namespace rtrain

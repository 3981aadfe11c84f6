// The budgets of GPU hours that are used up, derived from the records and the time.
#pragma once

#include <optional>
#include <set>

#include "scheduler/index/tables/allocations.hpp"

namespace rtrain {

struct Cluster;

struct SpentBudgets {
    bool known = false;           // false: the records have changed since the list was computed
    std::set<QueueUser> used_up;  // pairs of a queue and a user; without a user it is the budget of the whole queue
    std::optional<Time> changes;  // the list stays the same until this time, unless the records change
    // Always true: the list is derived, so clusters with equal records count as equal.
    bool operator==(const SpentBudgets&) const { return true; }
};

namespace core {

bool has_budgets(const Queues& queues);
SpentBudgets spent_budgets(const Cluster& cluster, Time now);
// Returns the present state of one budget, with its use. Without a user it is the budget of the whole queue. Returns
// nullopt if there is no such budget.
struct BudgetState;
std::optional<BudgetState> budget_of(const Cluster& cluster, const std::string& queue, const std::string& user,
                                     Time now);
// Returns the GPUs that users hold in queues with budgets and in the queues below them.
std::map<QueueUser, Amount> held_in_budgets(const Cluster& cluster);

}  // namespace core
}  // namespace rtrain

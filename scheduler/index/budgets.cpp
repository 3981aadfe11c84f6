// See budgets.hpp.
#include "scheduler/index/budgets.hpp"

#include <algorithm>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/queue_use.hpp"

namespace rtrain::core {
namespace {

std::vector<BudgetUse> charged_of(const Cluster& cluster, const std::string& queue, const QueueRules& rules, Time now) {
    std::vector<BudgetUse> all;
    for (auto at = cluster.budgets.lower_bound({queue, ""}); at != cluster.budgets.end() && at->first.first == queue;
         ++at)
        all.push_back(charged(at->second, at->second.held, now, rules.budget_window));
    return all;
}

}  // namespace

bool has_budgets(const Queues& queues) {
    return std::any_of(queues.rules.begin(), queues.rules.end(),
                       [](const auto& entry) { return entry.second.has_budgets(); });
}

std::map<QueueUser, Amount> held_in_budgets(const Cluster& cluster) {
    std::map<QueueUser, Sum> sums;
    for (const auto& [who, hold] : cluster.index.user_holds())
        for (auto at = cluster.queues.rules.find(who.first); at != cluster.queues.rules.end();
             at = cluster.queues.rules.find(at->second.parent))
            if (at->second.has_budgets()) {
                Sum& sum = sums[{at->first, who.second}];
                sum = sum + hold.gpus;
            }
    std::map<QueueUser, Amount> held;
    for (const auto& [who, sum] : sums)
        if (sum.ticks > 0) held[who] = {static_cast<std::int64_t>(std::min<__int128>(sum.ticks, INT64_MAX))};
    return held;
}

std::optional<BudgetState> budget_of(const Cluster& cluster, const std::string& queue, const std::string& user,
                                     Time now) {
    const auto rules = cluster.queues.rules.find(queue);
    if (rules == cluster.queues.rules.end()) return std::nullopt;
    const Duration window = rules->second.budget_window;
    const auto hours = user.empty() ? rules->second.gpu_hours : user_budget(rules->second, user);
    if (!hours) return std::nullopt;
    if (user.empty()) return budget_state(charged_of(cluster, queue, rules->second, now), *hours, now, window);
    const auto use = cluster.budgets.find({queue, user});
    if (use == cluster.budgets.end()) return budget_state({}, *hours, now, window);
    return budget_state({charged(use->second, use->second.held, now, window)}, *hours, now, window);
}

SpentBudgets spent_budgets(const Cluster& cluster, Time now) {
    SpentBudgets spent{.known = true, .used_up = {}, .changes = {}};
    const auto count = [&](const QueueUser& who, const BudgetState& state) {
        if (state.used_up) spent.used_up.insert(who);
        if (state.changes) spent.changes = std::min(spent.changes.value_or(*state.changes), *state.changes);
    };
    for (const auto& [queue, rules] : cluster.queues.rules) {
        if (!rules.has_budgets()) continue;
        const std::vector<BudgetUse> uses = charged_of(cluster, queue, rules, now);
        if (rules.gpu_hours) count({queue, ""}, budget_state(uses, *rules.gpu_hours, now, rules.budget_window));
        for (const BudgetUse& use : uses)
            if (const auto hours = user_budget(rules, use.user))
                count({queue, use.user}, budget_state({use}, *hours, now, rules.budget_window));
    }
    return spent;
}

}  // namespace rtrain::core

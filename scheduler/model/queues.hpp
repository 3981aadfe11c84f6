// The queues of a cluster as values: their configuration and their use. docs/queues.md has the rules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/ids.hpp"
#include "scheduler/model/resources.hpp"

namespace rtrain {

inline constexpr const char* default_queue = "default";

struct QueueRules {
    std::int64_t share = 1;  // share of the cluster in relation to the other queues
    std::string parent;      // the queue above, whose idle quota this one may borrow; empty: none
    // the most that the queue and the queues below it may hold; a resource without an entry has no limit
    Resources quota;
    bool borrow = true;    // may exceed its quota while the parent's quota is idle
    bool preempt = false;  // among queues with this flag, runs are preempted for runs of higher priority
    // The most that one user may hold at once in the queue and the queues below it: runs with a live attempt, and GPUs.
    std::optional<std::int64_t> user_runs{};
    std::optional<Amount> user_gpus{};
    // Budgets of GPU hours within `budget_window`: of the queue with the queues below it, and of each user there.
    std::optional<Amount> gpu_hours{}, user_gpu_hours{};
    // key: a user; value: the user's own budget, which replaces `user_gpu_hours`
    std::map<std::string, Amount> user_gpu_hours_of{};
    Duration budget_window{30LL * 86'400'000};  // length of the window, which ends now: "within the last 30 days"
    bool budget_preempts = false;               // true: running runs are preempted once their budget is used up
    bool has_user_budgets() const { return user_gpu_hours || !user_gpu_hours_of.empty(); }
    bool has_budgets() const { return gpu_hours || has_user_budgets(); }
    bool limits_users() const { return user_runs || user_gpus || has_user_budgets(); }
    bool operator==(const QueueRules&) const = default;
};

// The whole configuration is one record, so that it is never stored in part.
struct Queues {
    std::map<std::string, QueueRules> rules;  // key: the queue; empty: only the queue "default", without limits
    Duration half_life{86'400'000};           // half-life of past use
    Duration preemption_grace{60'000};        // time from a checkpoint request to the stop
    bool operator==(const Queues&) const = default;
};

// True if the queue, or one above it, limits what one user may hold.
inline bool limits_users(const Queues& queues, const std::string& queue) {
    auto at = queues.rules.find(queue);
    while (at != queues.rules.end() && !at->second.limits_users()) at = queues.rules.find(at->second.parent);
    return at != queues.rules.end();
}

// The present and past use of a queue. `level` is the mean of `held` until `at`. The past loses half of its weight in
// each half-life.
struct QueueUse {
    std::string queue;
    Time at;
    Resources held, level;
    bool operator==(const QueueUse&) const = default;
};

struct GpuTime {  // GPU time that was used within a span
    Time from, until;
    std::int64_t gpu_ms = 0;  // milliseconds times GPUs
    bool operator==(const GpuTime&) const = default;
};
// The GPU time of one user in a queue with a budget and in the queues below it. The user has held `held` since `at`.
// `used` is sorted, has the time before `at`, and at most `limits::budget_slices_most` elements.
struct BudgetUse {
    std::string queue, user;
    Time at;
    Amount held;
    std::vector<GpuTime> used;
    bool operator==(const BudgetUse&) const = default;
};
struct EraseBudgetUse {
    std::string queue, user;
    bool operator==(const EraseBudgetUse&) const = default;
};

}  // namespace rtrain

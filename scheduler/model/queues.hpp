// The queues of a cluster as values: their configuration and their use. docs/queues.md has the rules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

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
    bool limits_users() const { return user_runs || user_gpus; }
    bool operator==(const QueueRules&) const = default;
};

// The whole configuration is one record, so that it is never stored in part.
struct Queues {
    std::map<std::string, QueueRules> rules;  // empty: only "default", without limits
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

}  // namespace rtrain

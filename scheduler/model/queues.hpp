// The queues of a cluster as values: what was configured, and what each has used. The rules are in docs/queues.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "scheduler/model/ids.hpp"
#include "scheduler/model/resources.hpp"

namespace rtrain {

inline constexpr const char* default_queue = "default";

struct QueueRules {
    std::int64_t share = 1;  // its part against the other queues
    std::string parent;      // whose idle quota it may borrow; empty: nobody's
    Resources quota;         // what it may hold, with the queues below it; a resource without an entry has no limit
    bool borrow = true;      // goes beyond its quota while the parent's is idle
    bool preempt = false;    // its runs take room from runs of lower priority, and give it, among such queues
    bool operator==(const QueueRules&) const = default;
};

// The whole configuration is one record, so that it is never half there.
struct Queues {
    std::map<std::string, QueueRules> rules;  // empty: only "default", without limits
    Duration half_life{86'400'000};           // of past use
    Duration preemption_grace{60'000};        // from being asked for a checkpoint to being stopped
    bool operator==(const Queues&) const = default;
};

// What a queue holds and has held: `level` is the mean of `held` until `at`, in which the past loses half of its weight
// in each half-life.
struct QueueUse {
    std::string queue;
    Time at;
    Resources held, level;
    bool operator==(const QueueUse&) const = default;
};

}  // namespace rtrain

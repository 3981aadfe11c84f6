// The entries of the cluster index about waiting runs and their lines.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "scheduler/model/records.hpp"

namespace rtrain {

struct Waiter {  // a waiting run; ordered by age
    Time submitted;
    RunId id;
    auto operator<=>(const Waiter&) const = default;
};
struct WaitingBatch {  // the waiting runs of one line and one shape
    std::set<Waiter> by_age;
    // the runs, sorted by their wall_time limit; a run without a limit has `for_ever`
    std::set<std::pair<Duration, RunId>> by_length;
};
inline constexpr Duration for_ever{INT64_MAX};

// The waiting runs of one queue and one priority. Higher priorities come first, and yielding runs after all others.
struct Line {
    bool yields = false;
    std::int32_t priority = 0;
    std::string queue;
    std::string user{};  // empty unless limits for one user hold in the queue; then each user has a line
    bool operator<(const Line& other) const {
        if (yields != other.yields) return other.yields;
        if (priority != other.priority) return priority > other.priority;
        return queue != other.queue ? queue < other.queue : user < other.user;
    }
};

}  // namespace rtrain

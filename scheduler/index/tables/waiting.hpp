// The entries of the cluster index: waiting runs, their lines, the shapes of their gangs, and expected releases of
// nodes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "scheduler/model/records.hpp"
#include "scheduler/placement/free_index.hpp"
#include "scheduler/placement/reserved_seats.hpp"

namespace rtrain {

// The request that equal gangs share. One verdict holds for all of them.
struct Shape {
    GangRequest gang;  // includes the nodes that the run avoids
    Sums total;        // sum over all bundles; empty: the gang holds no resource
    std::uint32_t waiting = 0;
    using Asked = std::pair<ReservationMask, OnReserved>;
    std::map<Asked, UniformGang> uniform{};  // handles for shapes that the index of free slots can place
    bool unlike = false;  // true: the index of free slots cannot place this shape, so every node is examined
    // the masks with which no room was found, and Gains::count() at that time
    std::map<ReservationMask, std::uint64_t> full{};
};

struct Waiter {  // a waiting run; ordered by age
    Time submitted;
    RunId id;
    auto operator<=>(const Waiter&) const = default;
};
struct WaitingBatch {  // the waiting runs of one line and one shape
    std::set<Waiter> by_age;
    std::set<std::pair<Duration, RunId>> by_length;  // sorted by the wall_time limit; `for_ever` without one
};
inline constexpr Duration for_ever{INT64_MAX};

struct Line {  // the waiting runs of one queue and one priority; higher priorities come first
    std::int32_t priority = 0;
    std::string queue;
    std::string user{};  // empty unless limits for one user hold in the queue; then each user has a line
    bool operator<(const Line& other) const {
        if (priority != other.priority) return priority > other.priority;
        return queue != other.queue ? queue < other.queue : user < other.user;
    }
};

using QueueUser = std::pair<std::string, std::string>;  // a queue and a user
struct UserHold {                                       // the holdings of one user in one queue
    std::int64_t runs = 0;                              // with a live attempt
    Sum gpus;
    bool operator==(const UserHold&) const = default;
};

struct Release {  // the time at which an attempt is expected to release its nodes
    Time end;
    Time placed;
    AttemptId attempt;
    auto operator<=>(const Release&) const = default;
};
inline constexpr Time unknown_end{INT64_MAX};
static_assert(unknown_end == unknown_begin);

}  // namespace rtrain

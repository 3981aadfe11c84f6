// What the cluster index lists: who waits, in which line, for what shape of gang, and who will give nodes back.
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

// What gangs that are alike ask for: one verdict serves all of them.
struct Shape {
    GangRequest gang;  // with the nodes that the run avoids
    Sums total;        // of all bundles; empty: the gang holds no resource
    std::uint32_t waiting = 0;
    using Asked = std::pair<ReservationMask, OnReserved>;
    std::map<Asked, UniformGang> uniform{};           // where the index of free slots answers for it
    bool unlike = false;                              // it never does: every node is looked at
    std::map<ReservationMask, std::uint64_t> full{};  // where there was no room, and the gains known then
};

struct Waiter {  // a run that waits, in order of age
    Time submitted;
    RunId id;
    auto operator<=>(const Waiter&) const = default;
};
struct WaitingBatch {  // those of one line and one shape
    std::set<Waiter> by_age;
    std::set<std::pair<Duration, RunId>> by_length;  // of their wall_time limits; without one: for ever
};
inline constexpr Duration for_ever{INT64_MAX};

struct Line {  // those of one queue and one priority; higher priorities come first
    std::int32_t priority = 0;
    std::string queue;
    bool operator<(const Line& other) const {
        return priority != other.priority ? priority > other.priority : queue < other.queue;
    }
};

struct Release {  // when an attempt is expected to give its nodes back
    Time end;
    Time placed;
    AttemptId attempt;
    auto operator<=>(const Release&) const = default;
};
inline constexpr Time unknown_end{INT64_MAX};
static_assert(unknown_end == unknown_begin);

}  // namespace rtrain

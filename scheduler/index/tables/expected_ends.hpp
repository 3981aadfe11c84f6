// The expected ends of live attempts: fixed ones in sorted order, and the few attempts whose end moves with time.
// Invariant: each live attempt is in exactly one of ends() and restless().
#pragma once

#include <map>
#include <optional>
#include <set>

#include "scheduler/model/ids.hpp"
#include "scheduler/placement/node_holds.hpp"

namespace rtrain {

struct Release {  // the time at which an attempt is expected to release its nodes
    Time end;
    Time placed;
    AttemptId attempt;
    auto operator<=>(const Release&) const = default;
};
inline constexpr Time unknown_end{INT64_MAX};
static_assert(unknown_end == unknown_begin);

class ExpectedEnds {
  public:
    void put(const Release& release);  // adds a live attempt with a fixed end
    void put_restless(AttemptId live);
    void remove(AttemptId id);
    const std::set<Release>& ends() const { return ends_; }
    const std::set<AttemptId>& restless() const { return restless_; }
    bool operator==(const ExpectedEnds&) const = default;

  private:
    bool drop_end(AttemptId id, const Release* unless);  // returns true if the attempt has this release already

    std::set<Release> ends_;
    std::map<AttemptId, Release> end_of_;
    std::set<AttemptId> restless_;
};

}  // namespace rtrain

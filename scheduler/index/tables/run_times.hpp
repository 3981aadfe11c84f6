// The times at which something is due for a run.
// Invariant: a limit is due until it is enforced, which changes the record. The other times count only if they lie in
// the future: the event that passed them has handled them.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/model/ids.hpp"

namespace rtrain {

struct TimesOfRun {                   // the run's entries, stored as they were added
    std::optional<Time> limit;        // time at which a limit of the job spec ends the run
    std::optional<Time> retry;        // time at which a backoff ends
    std::optional<Time> reservation;  // time at which the run's reservation begins
    std::optional<Time> growth;       // time at which an elastic run may grow
    std::optional<Time> starvation;   // time at which the run has waited so long that it counts as starving
};

class RunTimes {
  public:
    void add(RunId id, const TimesOfRun& times);
    void remove(RunId id, const TimesOfRun& times);
    std::optional<Time> next_wake(Time after) const;
    std::vector<RunId> limits_until(Time now) const;  // sorted by id
    std::vector<RunId> retries_until(Time until) const;
    // true if one of the run's times, other than a limit, lies in this span
    bool is_due_within(Time after, Time until) const;
    bool operator==(const RunTimes&) const = default;

  private:
    using Times = std::set<std::pair<Time, RunId>>;
    Times limits_, retries_, reservations_, growths_, starvations_;
};

}  // namespace rtrain

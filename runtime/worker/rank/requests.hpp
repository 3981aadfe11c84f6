// The agent's requests to this rank: a checkpoint now, or the stop of the run.
// Invariant: wanted() is the kind of the last request, or 0 after a checkpoint has fulfilled it. A time of a stop is
// stored once, so a repeated stop does not extend the grace.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "runtime/worker/frames/frames.hpp"
#include "runtime/worker/rank/clock.hpp"

namespace rtrain::worker {

class AgentRequests {
  public:
    void on_message(const Wanted& request, Clock::time_point now);
    void checkpoint_reported();             // fulfils a checkpoint request; the agent repeats it if it still stands
    int wanted() const { return wanted_; }  // a value of Wish; any thread may call it without the lock
    bool stop_is_overdue(Clock::time_point now) const;  // true: a call that still waits is given up
    // Returns the request of the kind `what` as rtw_wanted_json returns it; empty if `what` is 0.
    std::string json(int what) const;

  private:
    std::atomic<int> wanted_{0};
    Wanted last_;  // its reason and deadline
    std::optional<Clock::time_point> stop_requested_;
};

}  // namespace rtrain::worker

// Watches budgets of GPU hours: no run leaves the queue while its budget is used up. Counts the GPU time from the
// attempts, to the millisecond, and shares no arithmetic with the scheduler.
#pragma once

#include <map>
#include <string>

#include "scheduler/controller.hpp"

namespace rtrain::sim {

class BudgetWatch {
  public:
    // Returns what is wrong with the attempts that the decision has placed, empty if nothing is.
    std::string decided(const Decision& decision, const Cluster& after);
    void forgotten(const Cluster& disk);

  private:
    struct Held {  // the GPUs of one attempt
        std::string queue, user;
        Amount gpus;
        Time from, until;  // until: 0 while it is held
    };
    void remember(const Cluster& cluster);
    std::string wrong_with(const Cluster& cluster, const Run& run, Time now) const;
    // Returns GPU milliseconds in ticks, of the queue and the queues below it; of one user if `user` is given.
    __int128 used_within(const Cluster& cluster, const std::string& queue, const std::string* user, Time now) const;

    std::map<std::uint32_t, Held> held_;  // key: the incarnation of the attempt
    std::map<RunId, RunState> states_;    // as they were after the last decision
};

}  // namespace rtrain::sim

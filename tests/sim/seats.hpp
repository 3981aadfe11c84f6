// Watches reserved seats: a run that is still there when a reservation begins may hold none of them. Counts the held
// amounts from the attempts, and shares no arithmetic with the scheduler.
#pragma once

#include <map>
#include <set>
#include <string>

#include "scheduler/controller.hpp"

namespace rtrain::sim {

class SeatWatch {
  public:
    // Returns what is wrong with the attempts that the decision has placed, empty if nothing is.
    std::string decided(const Decision& decision, const Cluster& after);
    void forgotten(const Cluster& disk);

  private:
    void remember(const Cluster& cluster);

    std::map<RunId, Run> reserving_;        // as they were after the last decision
    std::set<std::uint32_t> incarnations_;  // the attempts that were placed before this decision
};

}  // namespace rtrain::sim

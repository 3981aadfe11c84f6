// Watches runs that yield: each waiting run that would fit without them gets their seats after a grace, and a run that
// has yielded does not come back. Computes the room from the records, without the index of the scheduler.
#pragma once

#include <set>
#include <string>

#include "scheduler/controller.hpp"

namespace rtrain::sim {

class YieldWatch {
  public:
    // Returns what is wrong after the decision, empty if nothing is.
    std::string decided(const Decision& decision, const Cluster& after);
    void forgotten(const Cluster& disk);

  private:
    std::set<RunId> yielded_;
};

}  // namespace rtrain::sim

// Runs work for one run one after the other, in the order of its calls. Work for different runs may overlap. Used by
// the loop's thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "scheduler/model/ids.hpp"

namespace rtrain::head {

class RunLocks {
  public:
    // The lock of a run. The run's next work begins when the last copy of it is destroyed.
    using Held = std::shared_ptr<void>;
    using Work = std::function<void(Held)>;
    void take(RunId run, Work work);  // calls `work` now, or after all earlier work for the run

  private:
    struct Waiting {
        std::map<RunId, std::deque<Work>> runs;  // runs with work under way; value: the work that waits
    };
    static void give(const std::shared_ptr<Waiting>& waiting, RunId run, const Work& work);
    static void end(const std::shared_ptr<Waiting>& waiting, RunId run);

    // shared, since copies of Held may outlive this object
    std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

}  // namespace rtrain::head

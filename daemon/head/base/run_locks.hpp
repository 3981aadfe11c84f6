// Work of one run that must not overlap, in the order in which it came. Work of different runs goes on side by side.
// Used by the loop's thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "scheduler/model/ids.hpp"

namespace rtrain::head {

class RunLocks {
  public:
    // The run's next work begins once the last copy of this is gone.
    using Held = std::shared_ptr<void>;
    using Work = std::function<void(Held)>;
    void take(RunId run, Work work);  // at once, or behind earlier work of the run

  private:
    struct Waiting {
        std::map<RunId, std::deque<Work>> runs;  // those with work under way
    };
    static void give(const std::shared_ptr<Waiting>& waiting, RunId run, const Work& work);
    static void end(const std::shared_ptr<Waiting>& waiting, RunId run);

    std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();  // shared: held ones may outlive the head's parts
};

}  // namespace rtrain::head

// Work for one run that must not overlap, in the order of its calls. Work for different runs may overlap. Used by the
// loop's thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "scheduler/model/ids.hpp"

namespace rtrain::head {

class RunLocks {
  public:
    // The run's next work begins when the last copy of this is destroyed.
    using Held = std::shared_ptr<void>;
    using Work = std::function<void(Held)>;
    void take(RunId run, Work work);  // at once, or after earlier work for the run

  private:
    struct Waiting {
        std::map<RunId, std::deque<Work>> runs;  // runs with work under way
    };
    static void give(const std::shared_ptr<Waiting>& waiting, RunId run, const Work& work);
    static void end(const std::shared_ptr<Waiting>& waiting, RunId run);

    // Shared, since copies of Held may outlive the head's parts.
    std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

}  // namespace rtrain::head

// The input side of the agent's machine. A part that has an `Inputs` can enqueue inputs, and has no other access to the
// loop.
#pragma once

#include "daemon/agent/machine/messages.hpp"

namespace rtrain::agent {

class AgentLoop;

class Inputs {
  public:
    Inputs(AgentLoop& loop) : loop_(&loop) {}  // implicit, since it is a view of the loop

    void enqueue(Input input) const;        // on the loop's thread; the step is performed at return, or soon after
    void enqueue_later(Input input) const;  // from any thread

  private:
    AgentLoop* loop_;
};

}  // namespace rtrain::agent

// The way into the agent's machine: a place to put inputs. Whoever is given one can do nothing else with the loop.
#pragma once

#include "daemon/agent/machine/messages.hpp"

namespace rtrain::agent {

class AgentLoop;

class Inputs {
  public:
    Inputs(AgentLoop& loop) : loop_(&loop) {}  // implicit: it is a part of what the loop is

    void enqueue(Input input) const;  // on the loop's thread; the step is performed when this returns, or soon after
    void enqueue_later(Input input) const;  // from any thread

  private:
    AgentLoop* loop_;
};

}  // namespace rtrain::agent

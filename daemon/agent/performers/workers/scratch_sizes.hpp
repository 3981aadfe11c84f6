// How much the attempts have in their scratch directories, where the node has a quota for it.
#pragma once

#include "daemon/agent/loop/agent_loop.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"

namespace rtrain::agent {

class ScratchSizes {
  public:
    ScratchSizes(AgentLoop& loop, const ThisNode& node, const LiveAttempts& attempts)
        : loop_(loop), node_(node), attempts_(attempts) {}
    void measure();  // now, and again as long as there are attempts

  private:
    AgentLoop& loop_;
    const ThisNode& node_;
    const LiveAttempts& attempts_;
    bool measuring_ = false;
};

}  // namespace rtrain::agent

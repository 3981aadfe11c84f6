// Measures the attempts' scratch directories, if the node has a quota for them.
#pragma once

#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class ScratchSizes {
  public:
    ScratchSizes(Inputs inputs, net::Background background, const ThisNode& node, const LiveAttempts& attempts)
        : inputs_(inputs), background_(background), node_(node), attempts_(attempts) {}
    void measure();  // measures now, and repeats while there are attempts

  private:
    const Inputs inputs_;
    const net::Background background_;
    const ThisNode& node_;
    const LiveAttempts& attempts_;
    bool measuring_ = false;
};

}  // namespace rtrain::agent

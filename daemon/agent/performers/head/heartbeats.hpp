// Heartbeats: to what the machine tells of the workers comes what the node's memory and GPUs tell.
#pragma once

#include <vector>

#include "daemon/agent/loop/agent_loop.hpp"
#include "daemon/agent/performers/head/head_link.hpp"
#include "daemon/agent/performers/this_node.hpp"

namespace rtrain::agent {

class Heartbeats {
  public:
    Heartbeats(AgentLoop& loop, const ThisNode& node, HeadLink& head) : loop_(loop), node_(node), head_(head) {}
    void send(SendHeartbeat& out);

  private:
    void sample_gpus();

    AgentLoop& loop_;
    const ThisNode& node_;
    HeadLink& head_;
    std::vector<protocol::GpuHeartbeat> gpus_;  // as last sampled
    bool sampling_gpus_ = false;
};

}  // namespace rtrain::agent

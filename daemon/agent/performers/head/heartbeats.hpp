// Heartbeats: to what the machine tells of the workers comes what the node's memory, GPUs, network and disks tell.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "daemon/agent/hardware/traffic.hpp"
#include "daemon/agent/loop/agent_loop.hpp"
#include "daemon/agent/performers/head/head_link.hpp"
#include "daemon/agent/performers/this_node.hpp"

namespace rtrain::agent {

class Heartbeats {
  public:
    Heartbeats(AgentLoop& loop, const ThisNode& node, HeadLink& head) : loop_(loop), node_(node), head_(head) {}
    void send(SendHeartbeat& out);

  private:
    struct Usage {
        protocol::Traffic node{};
        std::map<WorkerName, protocol::Traffic> workers{};
        std::vector<protocol::DiskHeartbeat> disks{};
    };
    Pids worker_pids() const;
    void sample_gpus(const Pids& workers);
    void sample_usage(const Pids& workers);

    AgentLoop& loop_;
    const ThisNode& node_;
    HeadLink& head_;
    std::vector<protocol::GpuHeartbeat> gpus_;                                    // as last sampled
    Usage usage_;                                                                 // likewise
    std::shared_ptr<WorkerTraffic> traffic_ = std::make_shared<WorkerTraffic>();  // one sample at a time has it
    bool sampling_gpus_ = false, sampling_usage_ = false;
    std::int64_t usage_at_ms_ = 0;
};

}  // namespace rtrain::agent

// Sends heartbeats: the machine's data about workers, with the node's memory, GPUs, network and disks.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "daemon/agent/hardware/traffic.hpp"
#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/performers/head/head_link.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class Heartbeats {
  public:
    Heartbeats(Inputs inputs, const AgentState& state, net::Background background, const ThisNode& node, HeadLink& head)
        : inputs_(inputs), state_(state), background_(background), node_(node), head_(head) {}
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

    const Inputs inputs_;
    const AgentState& state_;
    const net::Background background_;
    const ThisNode& node_;
    HeadLink& head_;
    std::vector<protocol::GpuHeartbeat> gpus_;                                    // the last sample
    Usage usage_;                                                                 // the last sample
    std::shared_ptr<WorkerTraffic> traffic_ = std::make_shared<WorkerTraffic>();  // used by one sample at a time
    bool sampling_gpus_ = false, sampling_usage_ = false;
    std::int64_t usage_at_ms_ = 0;
    std::string full_disk_;  // as in the last heartbeat
};

}  // namespace rtrain::agent

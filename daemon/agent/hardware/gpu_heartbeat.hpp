// GPUs as heartbeats tell of them, from what NVML answered. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "daemon/agent/hardware/inventory.hpp"
#include "daemon/protocol/messages.hpp"

namespace rtrain::agent {

// In the scheduler's order; a device that did not answer keeps its place, with its uuid alone.
std::vector<protocol::GpuHeartbeat> gpu_heartbeats(const std::vector<GpuStats>& stats,
                                                   const std::vector<GpuDevice>& devices);
std::set<std::uint32_t> busy_gpus(
    const std::vector<protocol::GpuHeartbeat>& heartbeats);  // an unknown utilisation counts as busy
bool has_real_gpus(const std::vector<GpuDevice>& devices);

}  // namespace rtrain::agent

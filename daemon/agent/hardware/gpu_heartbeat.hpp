// Makes the GPU part of heartbeats from NVML's answers. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "daemon/agent/hardware/inventory.hpp"
#include "daemon/protocol/messages.hpp"

namespace rtrain::agent {

// Returns true if a process belongs to no attempt of this agent.
using IsForeign = std::function<bool(std::int64_t pid)>;

// Returns the heartbeats in the scheduler's order. A device that does not answer keeps its place, with its uuid and its
// Xid errors alone.
std::vector<protocol::GpuHeartbeat> gpu_heartbeats(const std::vector<GpuStats>& stats,
                                                   const std::vector<GpuDevice>& devices, const IsForeign& is_foreign);
std::set<std::uint32_t> busy_gpus(
    const std::vector<protocol::GpuHeartbeat>& heartbeats);  // an unknown utilisation counts as busy
bool has_real_gpus(const std::vector<GpuDevice>& devices);

}  // namespace rtrain::agent

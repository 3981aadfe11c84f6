// What a heartbeat tells: the workers, the node's memory and its GPUs, as they are now. Kept by nobody; the next one is
// newer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/protocol/attempt_ref.hpp"

namespace rtrain::protocol {

// clang-format off: fields that belong together stand on one line
struct WorkerHeartbeat {
    AttemptRef attempt{}; std::uint32_t rank = 0; std::int64_t resident_bytes = 0, cpu_ms = 0, silent_ms = 0;
    std::int64_t heartbeat_age_ms = 0;          // since its library's last sign of life; -1: it uses none
    std::int64_t data_wait_ms = -1;             // it waited for input, since its start; -1: it does not tell
    std::int64_t interval_ms = 0;               // its last step: from the release of one report to its coming with the next
    bool operator==(const WorkerHeartbeat&) const = default;
};
// As NVML says now. What a device does not tell is -1.
struct GpuHeartbeat {
    std::string uuid{};
    std::int64_t utilization_percent = -1, memory_used = 0, memory_total = 0, power_mw = -1, temperature_c = -1;
    std::map<std::uint64_t, std::uint64_t> xids{};  // Xid error: how often since the agent's start
    bool operator==(const GpuHeartbeat&) const = default;
};
struct Heartbeat {
    std::int64_t memory_used = 0, memory_total = 0; std::vector<WorkerHeartbeat> workers{};
    std::vector<GpuHeartbeat> gpus{};               // index: as the scheduler counts; empty: no NVML
    bool operator==(const Heartbeat&) const = default;
};

}  // namespace rtrain::protocol

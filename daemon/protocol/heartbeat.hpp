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
// Bytes since the node's boot, or since a worker's start: only growing, but for a restart of the agent. -1: it cannot be told.
struct Traffic {
    std::int64_t network_received = -1, network_sent = -1, disk_read = -1, disk_written = -1;
    bool operator==(const Traffic&) const = default;
};
struct WorkerHeartbeat {
    AttemptRef attempt{}; std::uint32_t rank = 0; std::int64_t resident_bytes = 0, cpu_ms = 0, silent_ms = 0;
    std::int64_t heartbeat_age_ms = 0;          // since its library's last sign of life; -1: it uses none
    std::int64_t data_wait_ms = -1;             // it waited for input, since its start; -1: it does not tell
    std::int64_t barrier_wait_ms = -1;          // for other ranks, in reports and collectives; -1: it does not tell
    std::uint64_t barrier_waits = 0;            // how often
    std::int64_t checkpoint_wait_ms = -1;       // in reports with a checkpoint; -1: it does not tell
    std::int64_t interval_ms = 0;               // its last step: from the release of one report to its coming with the next
    Traffic traffic{};                          // of its TCP connections and of its processes' files
    std::int64_t report_wait_ms = -1;           // it waits in its present report for so long; 0: in none; -1: it cannot be told
    bool operator==(const WorkerHeartbeat&) const = default;
};
// One device as NVML describes it now. What a device does not tell is -1.
struct GpuHeartbeat {
    std::string uuid{};
    std::int64_t utilization_percent = -1, memory_used = 0, memory_total = 0, power_mw = -1, temperature_c = -1;
    std::map<std::uint64_t, std::uint64_t> xids{};  // Xid error: how often since the agent's start
    std::int64_t ecc_corrected = -1, ecc_uncorrected = -1;      // errors since the driver was loaded
    std::int64_t foreign_processes = -1, foreign_memory = -1;   // that compute on it and belong to no attempt of this agent; their bytes
    bool answers() const { return memory_total > 0; }
    bool operator==(const GpuHeartbeat&) const = default;
};
// The file system that a directory of the agent lies on. place: data, scratch.
struct DiskHeartbeat {
    std::string place{}; std::int64_t size = 0, free = 0;
    bool operator==(const DiskHeartbeat&) const = default;
};
struct Heartbeat {
    std::int64_t memory_used = 0, memory_total = 0; std::vector<WorkerHeartbeat> workers{};
    std::vector<GpuHeartbeat> gpus{};               // index: as the scheduler counts; empty: no NVML
    Traffic traffic{};                              // of network interfaces and disks
    std::vector<DiskHeartbeat> disks{};
    std::int64_t cpu_ms = -1;                       // all its processors worked, since its boot; -1: it cannot be told
    std::string full_disk{};                        // why its disk has no room for new runs; empty: it has
    bool operator==(const Heartbeat&) const = default;
};

}  // namespace rtrain::protocol

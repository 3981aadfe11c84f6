// The contents of a heartbeat: the present state of the workers, the node's memory and its GPUs. Heartbeats are not
// stored; each replaces the one before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/protocol/attempt_ref.hpp"

namespace rtrain::protocol {

// clang-format off: fields that belong together stand on one line
// Bytes since the node's boot, or since a worker's start. They only grow, except at a restart of the agent.
// -1: unknown.
struct Traffic {
    std::int64_t network_received = -1, network_sent = -1, disk_read = -1, disk_written = -1;
    bool operator==(const Traffic&) const = default;
};
struct WorkerHeartbeat {
    AttemptRef attempt{}; std::uint32_t rank = 0; std::int64_t resident_bytes = 0, cpu_ms = 0, silent_ms = 0;
    // Since the last heartbeat of the worker's library; -1: the worker does not use the library.
    std::int64_t heartbeat_age_ms = 0;
    std::int64_t data_wait_ms = -1;             // time that it waited for input since its start; -1: not measured
    // Time that it waited for other ranks in reports and collectives; -1: not measured.
    std::int64_t barrier_wait_ms = -1;
    std::uint64_t barrier_waits = 0;            // number of such waits
    std::int64_t checkpoint_wait_ms = -1;       // time that it waited in reports with a checkpoint; -1: not measured
    // Duration of its last step: from the end of one report to the begin of the next.
    std::int64_t interval_ms = 0;
    Traffic traffic{};                          // the worker's TCP connections, and its processes' file access
    // How long it has waited in its present report; 0: it is in none; -1: unknown.
    std::int64_t report_wait_ms = -1;
    bool operator==(const WorkerHeartbeat&) const = default;
};
// The present state of one device, from NVML. A value that the device does not provide is -1.
struct GpuHeartbeat {
    std::string uuid{};
    std::int64_t utilization_percent = -1, memory_used = 0, memory_total = 0, power_mw = -1, temperature_c = -1;
    // Key: Xid error; value: how often it happened since the agent's start.
    std::map<std::uint64_t, std::uint64_t> xids{};
    std::int64_t ecc_corrected = -1, ecc_uncorrected = -1;      // errors since the driver was loaded
    // Processes on the device that belong to no attempt of this agent, and the bytes they use.
    std::int64_t foreign_processes = -1, foreign_memory = -1;
    bool answers() const { return memory_total > 0; }
    bool operator==(const GpuHeartbeat&) const = default;
};
// The file system of one of the agent's directories. place: data, scratch.
struct DiskHeartbeat {
    std::string place{}; std::int64_t size = 0, free = 0;
    bool operator==(const DiskHeartbeat&) const = default;
};
struct Heartbeat {
    std::int64_t memory_used = 0, memory_total = 0; std::vector<WorkerHeartbeat> workers{};
    std::vector<GpuHeartbeat> gpus{};               // index: the scheduler's number of the device; empty: no NVML
    Traffic traffic{};                              // network interfaces and disks
    std::vector<DiskHeartbeat> disks{};
    std::int64_t cpu_ms = -1;                       // time that all processors worked since boot; -1: unknown
    std::string full_disk{};                        // why the disk has no room for new runs; empty if it has
    bool operator==(const Heartbeat&) const = default;
};

}  // namespace rtrain::protocol

#include "daemon/agent/performers/head/heartbeats.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/disk/disk_room.hpp"
#include "daemon/agent/hardware/gpu_heartbeat.hpp"
#include "daemon/agent/hardware/processes.hpp"

namespace rtrain::agent {
namespace {

std::int64_t kib(const std::map<std::string, std::string>& values, const char* name) {
    const auto entry = values.find(name);
    return entry == values.end() ? 0 : std::strtoll(entry->second.c_str(), nullptr, 10) * 1024;
}

std::int64_t resident_bytes(std::int64_t pid) {
    const auto text = read_whole("/proc/" + std::to_string(pid) + "/statm");
    if (!text) return 0;
    const auto space = text->find(' ');
    return space == std::string::npos ? 0 : std::strtoll(text->c_str() + space, nullptr, 10) * ::sysconf(_SC_PAGESIZE);
}

// Returns true if the process is foreign. A process of another pid namespace is invisible here, and does not count.
bool is_foreign(std::int64_t pid, const std::set<std::int64_t>& roots) {
    return parent_of(pid).has_value() && !descends(pid, roots);
}

void add_disk(std::vector<protocol::DiskHeartbeat>& disks, const std::string& place, const std::string& directory) {
    struct statvfs disk{};
    if (::statvfs(directory.c_str(), &disk) != 0) return;
    const auto block = static_cast<std::int64_t>(disk.f_frsize);
    disks.push_back({.place = place,
                     .size = block * static_cast<std::int64_t>(disk.f_blocks),
                     .free = block * static_cast<std::int64_t>(disk.f_bavail)});
}

}  // namespace

void Heartbeats::send(SendHeartbeat& out) {
    const auto memory = read_values("/proc/meminfo");
    const Pids pids = worker_pids();
    for (protocol::WorkerHeartbeat& heartbeat : out.workers) {
        const WorkerName name{key_of(heartbeat.attempt), heartbeat.rank};
        if (const auto pid = pids.find(name); pid != pids.end()) heartbeat.resident_bytes = resident_bytes(pid->second);
        if (const auto seen = usage_.workers.find(name); seen != usage_.workers.end()) heartbeat.traffic = seen->second;
    }
    const DiskRoom disk = room_at(node_.files.data_dir);
    full_disk_ = full_disk(node_.files.data_dir, disk, reserve_of(disk, node_.options.disk_reserve), full_disk_);
    head_.send(protocol::Heartbeat{.memory_used = kib(memory, "MemTotal:") - kib(memory, "MemAvailable:"),
                                   .memory_total = kib(memory, "MemTotal:"),
                                   .workers = std::move(out.workers),
                                   .gpus = gpus_,
                                   .traffic = usage_.node,
                                   .disks = usage_.disks,
                                   .cpu_ms = processors_worked_ms(),
                                   .full_disk = full_disk_});
    sample_gpus(pids);
    sample_usage(pids);
}

Pids Heartbeats::worker_pids() const {
    Pids pids;
    for (const auto& [key, attempt] : state_.attempts)
        for (const auto& [rank, worker] : attempt.workers)
            if (worker.started && !worker.exited && worker.pid > 0) pids[{key, rank}] = worker.pid;
    return pids;
}

// Samples the GPUs for the next heartbeat, on another thread, since a faulty driver may take long. The agent's own
// children are preparations.
void Heartbeats::sample_gpus(const Pids& workers) {
    if (sampling_gpus_ || !has_real_gpus(node_.inventory.devices)) return;
    sampling_gpus_ = true;
    background_.offload(
        [workers, devices = node_.inventory.devices] {
            std::set<std::int64_t> roots{::getpid()};
            for (const auto& [name, pid] : workers) roots.insert(shim_of(pid));
            return gpu_heartbeats(gpu_stats(), devices, [&](std::int64_t pid) { return is_foreign(pid, roots); });
        },
        [](const Error&) { return std::vector<protocol::GpuHeartbeat>{}; },
        [this](std::vector<protocol::GpuHeartbeat> gpus) {
            sampling_gpus_ = false;
            gpus_ = std::move(gpus);
            inputs_.enqueue(GpusSampled{busy_gpus(gpus_)});
        });
}

// Samples the usage on another thread. It reads each process of the workers, and so does not run with each heartbeat.
void Heartbeats::sample_usage(const Pids& workers) {
    constexpr std::int64_t pause_ms = 5'000;
    const std::int64_t now = boot_ms();
    if (sampling_usage_ || (usage_at_ms_ > 0 && now - usage_at_ms_ < pause_ms)) return;
    sampling_usage_ = true;
    usage_at_ms_ = now;
    background_.offload(
        [workers, traffic = traffic_, files = node_.files] {
            Usage usage{.node = node_traffic(), .workers = traffic->look(workers, tcp_sockets()), .disks = {}};
            add_disk(usage.disks, "data", files.data_dir);
            add_disk(usage.disks, "scratch", files.scratch_dir);
            return usage;
        },
        [](const Error&) { return Usage{}; },
        [this](Usage usage) {
            sampling_usage_ = false;
            usage_ = std::move(usage);
        });
}

}  // namespace rtrain::agent

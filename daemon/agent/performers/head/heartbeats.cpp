#include "daemon/agent/performers/head/heartbeats.hpp"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "daemon/agent/hardware/gpu_heartbeat.hpp"

namespace rtrain::agent {
namespace {

std::int64_t kib(const std::map<std::string, std::string>& values, const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? 0 : std::strtoll(found->second.c_str(), nullptr, 10) * 1024;
}

std::int64_t resident_bytes(std::int64_t pid) {
    const auto text = read_whole("/proc/" + std::to_string(pid) + "/statm");
    if (!text) return 0;
    const auto space = text->find(' ');
    return space == std::string::npos ? 0 : std::strtoll(text->c_str() + space, nullptr, 10) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

void Heartbeats::send(SendHeartbeat& out) {
    const auto memory = read_values("/proc/meminfo");
    const AgentState& state = loop_.state();
    for (protocol::WorkerHeartbeat& heartbeat : out.workers) {
        const auto attempt = state.attempts.find(key_of(heartbeat.attempt));
        if (attempt == state.attempts.end()) continue;
        const auto worker = attempt->second.workers.find(heartbeat.rank);
        if (worker != attempt->second.workers.end()) heartbeat.resident_bytes = resident_bytes(worker->second.pid);
    }
    head_.send(protocol::Heartbeat{.memory_used = kib(memory, "MemTotal:") - kib(memory, "MemAvailable:"),
                                   .memory_total = kib(memory, "MemTotal:"),
                                   .workers = std::move(out.workers),
                                   .gpus = gpus_});
    sample_gpus();
}

// For the next heartbeat: a driver in trouble may take its time.
void Heartbeats::sample_gpus() {
    if (sampling_gpus_ || !has_real_gpus(node_.inventory.devices)) return;
    sampling_gpus_ = true;
    loop_.net().offload([] { return gpu_stats(); }, [](const Error&) { return std::vector<GpuStats>{}; },
                        [this](const std::vector<GpuStats>& stats) {
                            sampling_gpus_ = false;
                            gpus_ = gpu_heartbeats(stats, node_.inventory.devices);
                            loop_.enqueue(GpusSampled{busy_gpus(gpus_)});
                        });
}

}  // namespace rtrain::agent

#include "daemon/agent/hardware/gpu_heartbeat.hpp"

#include <algorithm>
#include <cmath>

namespace rtrain::agent {
namespace {

constexpr std::int64_t busy_percent = 5;

std::int64_t whole(double value, double scale) {
    return std::isnan(value) ? -1 : static_cast<std::int64_t>(std::llround(value * scale));
}

std::int64_t known(const std::optional<std::uint64_t>& count) { return count ? static_cast<std::int64_t>(*count) : -1; }

protocol::GpuHeartbeat heartbeat_of(const GpuStats& stats) {
    protocol::GpuHeartbeat lost{.uuid = stats.uuid};
    lost.xids = stats.xids;
    if (!stats.answers) return lost;
    return {.uuid = stats.uuid,
            .utilization_percent = whole(stats.utilization_ratio, 100),
            .memory_used = stats.memory_used_bytes,
            .memory_total = stats.memory_total_bytes,
            .power_mw = whole(stats.power_watts, 1'000),
            .temperature_c = whole(stats.temperature_celsius, 1),
            .xids = stats.xids,
            .ecc_corrected = known(stats.ecc_corrected),
            .ecc_uncorrected = known(stats.ecc_uncorrected)};
}

void count_foreign(protocol::GpuHeartbeat& heartbeat, const GpuStats& stats, const IsForeign& is_foreign) {
    if (!stats.processes) return;
    heartbeat.foreign_processes = heartbeat.foreign_memory = 0;
    for (const GpuProcess& process : *stats.processes) {
        if (!is_foreign(process.pid)) continue;
        ++heartbeat.foreign_processes;
        heartbeat.foreign_memory += process.memory_bytes;
    }
}

}  // namespace

std::vector<protocol::GpuHeartbeat> gpu_heartbeats(const std::vector<GpuStats>& stats,
                                                   const std::vector<GpuDevice>& devices, const IsForeign& is_foreign) {
    std::vector<protocol::GpuHeartbeat> heartbeats;
    for (const GpuDevice& device : devices) {
        const auto sample =
            std::find_if(stats.begin(), stats.end(), [&](const GpuStats& gpu) { return gpu.uuid == device.uuid; });
        heartbeats.push_back(sample == stats.end() ? protocol::GpuHeartbeat{.uuid = device.uuid}
                                                   : heartbeat_of(*sample));
        if (sample != stats.end()) count_foreign(heartbeats.back(), *sample, is_foreign);
    }
    return heartbeats;
}

std::set<std::uint32_t> busy_gpus(const std::vector<protocol::GpuHeartbeat>& heartbeats) {
    std::set<std::uint32_t> busy;
    for (std::uint32_t i = 0; i < heartbeats.size(); ++i) {
        const std::int64_t percent = heartbeats[i].utilization_percent;
        if (percent < 0 || percent >= busy_percent) busy.insert(i);
    }
    return busy;
}

bool has_real_gpus(const std::vector<GpuDevice>& devices) {
    return std::any_of(devices.begin(), devices.end(), [](const GpuDevice& device) { return !device.fake; });
}

}  // namespace rtrain::agent

// See usage.hpp. docs/http-api.md lists the keys.
#include "daemon/head/history/usage.hpp"

#include <algorithm>

#include "storage/history/limits.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t rate_window_ms = 8'000;

using Values = std::vector<std::pair<std::string, double>>;

void add_known(Values& values, const std::string& key, std::int64_t value, double units_per_one = 1) {
    if (value >= 0) values.emplace_back(key, static_cast<double>(value) / units_per_one);
}

history::NamedSample sample_at(const HeardHeartbeat& heard) {
    return {.at = static_cast<std::uint64_t>(std::max<std::int64_t>(0, heard.wall_ms) / 1'000),
            .wall_ms = heard.wall_ms,
            .attempt = 0,
            .step = 0,
            .values = {}};
}

void add_gpus(Values& values, const std::vector<protocol::GpuHeartbeat>& gpus) {
    for (std::size_t i = 0; i < std::min(gpus.size(), history::gpus_most); ++i) {
        if (!gpus[i].answers()) continue;
        const std::string gpu = "gpu" + std::to_string(i) + "_";
        add_known(values, gpu + "utilization_ratio", gpus[i].utilization_percent, 100);
        add_known(values, gpu + "memory_bytes", gpus[i].memory_used);
    }
}

// Adds the rate of a counter between two heartbeats, unless the counter is unknown or was reset.
void add_rate(Values& values, const std::string& key, std::int64_t before, std::int64_t now, double per) {
    if (before >= 0 && now >= before) values.emplace_back(key, static_cast<double>(now - before) / per);
}

// Adds the fraction of the time in which a rank did not wait for other ranks.
void add_own_time(Values& values, std::int64_t waited_before, std::int64_t waited_now, double passed_ms) {
    if (waited_before < 0 || waited_now < waited_before) return;
    const double waited = static_cast<double>(waited_now - waited_before) / passed_ms;
    values.emplace_back("own_time_ratio", std::clamp(1 - waited, 0.0, 1.0));
}

}  // namespace

GpuUse gpu_use(const std::vector<protocol::GpuHeartbeat>& gpus, const std::vector<std::uint32_t>& own) {
    GpuUse out;
    std::int64_t utilization = 0, known = 0;
    for (const std::uint32_t index : own) {
        if (index >= gpus.size() || !gpus[index].answers()) continue;
        out.memory_bytes = out.memory_bytes.value_or(0) + gpus[index].memory_used;
        if (gpus[index].utilization_percent < 0) continue;
        ++known;
        utilization += gpus[index].utilization_percent;
    }
    if (known > 0) out.utilization_ratio = static_cast<double>(utilization) / static_cast<double>(known) / 100;
    return out;
}

std::string history_of_run(RunId run) { return "run/" + std::to_string(run.value); }
std::string history_of_node(const std::string& node) { return "node/" + node; }
std::string history_of_ranks(RunId run) { return "rank/" + std::to_string(run.value) + "/"; }
std::string history_of_rank(RunId run, std::uint32_t rank) { return history_of_ranks(run) + std::to_string(rank); }

void UsageRates::add_rates(history::NamedSample& sample, const std::string& subject, Counters now) {
    const auto [known, fresh] = before_.try_emplace(subject, now);
    Counters& before = known->second;
    before.heard_ms = now.heard_ms;
    const std::int64_t passed_ms = now.monotonic_ms - before.monotonic_ms;
    if (fresh || passed_ms < rate_window_ms) return;
    const double ms = static_cast<double>(passed_ms), seconds = ms / 1'000;
    Values& values = sample.values;
    add_rate(values, "cpu_cores", before.cpu_ms, now.cpu_ms, ms);
    add_own_time(values, before.barrier_wait_ms, now.barrier_wait_ms, ms);
    add_rate(values, "network_received_bytes_per_second", before.traffic.network_received, now.traffic.network_received,
             seconds);
    add_rate(values, "network_sent_bytes_per_second", before.traffic.network_sent, now.traffic.network_sent, seconds);
    add_rate(values, "disk_read_bytes_per_second", before.traffic.disk_read, now.traffic.disk_read, seconds);
    add_rate(values, "disk_written_bytes_per_second", before.traffic.disk_written, now.traffic.disk_written, seconds);
    before = now;
}

std::vector<SubjectSample> UsageRates::samples(const HeardHeartbeat& heard) {
    std::vector<SubjectSample> out;
    const protocol::Heartbeat& heartbeat = heard.heartbeat;
    const auto counters = [&](std::int64_t cpu_ms, std::int64_t barrier_wait_ms, const protocol::Traffic& traffic) {
        return Counters{.cpu_ms = cpu_ms,
                        .barrier_wait_ms = barrier_wait_ms,
                        .traffic = traffic,
                        .monotonic_ms = heard.monotonic_ms,
                        .heard_ms = heard.monotonic_ms};
    };
    const std::string node = history_of_node(heard.node);
    history::NamedSample of_node = sample_at(heard);
    if (heartbeat.memory_total > 0) add_known(of_node.values, "memory_bytes", heartbeat.memory_used);
    add_gpus(of_node.values, heartbeat.gpus);
    add_rates(of_node, node, counters(heartbeat.cpu_ms, -1, heartbeat.traffic));
    if (!of_node.values.empty()) out.emplace_back(node, std::move(of_node));
    for (const auto& [place, worker] : heard.workers) {
        if (place >= heartbeat.workers.size()) continue;
        const protocol::WorkerHeartbeat& of = heartbeat.workers[place];
        const std::string rank = history_of_rank(worker.run, worker.rank);
        history::NamedSample sample = sample_at(heard);
        if (of.resident_bytes > 0) add_known(sample.values, "memory_bytes", of.resident_bytes);
        if (of.interval_ms > 0) add_known(sample.values, "report_interval_seconds", of.interval_ms, 1'000);
        const GpuUse gpus = gpu_use(heartbeat.gpus, worker.gpus);
        if (gpus.memory_bytes) add_known(sample.values, "gpu_memory_bytes", *gpus.memory_bytes);
        if (gpus.utilization_ratio) sample.values.emplace_back("gpu_utilization_ratio", *gpus.utilization_ratio);
        add_rates(sample, rank, counters(of.cpu_ms, of.barrier_wait_ms, of.traffic));
        if (!sample.values.empty()) out.emplace_back(rank, std::move(sample));
    }
    return out;
}

void UsageRates::forget_before(std::int64_t monotonic_ms) {
    std::erase_if(before_, [&](const auto& subject) { return subject.second.heard_ms < monotonic_ms; });
}

}  // namespace rtrain::head

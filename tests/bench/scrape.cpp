// Times the text of /metrics for one run of many workers, each with a GPU, eight on a node. Prints the processor time
// of each text, without the parts that the loop and TLS take. usage: bench_scrape [workers] [texts]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "daemon/metrics/metrics.hpp"

using namespace rtrain;
using namespace rtrain::metrics;

namespace {

constexpr std::uint32_t workers_of_node = 8;
constexpr double traffic_bytes = 1e12;

double cpu_ms() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

NodeId node_of(std::uint32_t rank) { return {"node-" + std::to_string(rank / workers_of_node)}; }

LiveWorker worker(std::uint32_t rank) {
    const double own = rank;
    LiveWorker worker{.attempt = {.run = {1}, .number = 1}, .rank = {rank}};
    worker.resident_bytes = 1'234'567'890 + 4'096 * rank;
    worker.cpu_ms = 1'234'567 + rank;
    worker.heartbeat_age_seconds = 0.25 + own / 1e3;
    worker.data_wait_seconds = 2.125 + own / 1e2;
    worker.barrier_wait_seconds = 12.5 + own / 1e2;
    worker.checkpoint_wait_seconds = 3.25 + own / 1e3;
    worker.step_ms = 100;
    worker.traffic = {.network_received = traffic_bytes + own,
                      .network_sent = traffic_bytes + own,
                      .disk_read = 3e8 + own,
                      .disk_written = 4e7 + own};
    return worker;
}

LiveGpu gpu(std::uint32_t rank) {
    LiveGpu gpu{.index = rank % workers_of_node,
                .uuid = "GPU-6a1e0f3c-11aa-4b2e-9d55-" + std::to_string(100'000'000 + rank)};
    gpu.utilization_ratio = 0.87;
    gpu.power_watts = 412.337;
    gpu.temperature_celsius = 61;
    gpu.memory_used_bytes = 70'000'000'000 + rank;
    gpu.memory_total_bytes = 85'899'345'920;
    gpu.ecc_corrected = gpu.ecc_uncorrected = gpu.foreign_processes = gpu.foreign_memory_bytes = 0;
    return gpu;
}

Live live(std::uint32_t workers) {
    Live live;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
        live.workers.push_back(worker(rank));
        LiveNode& node = live.nodes[node_of(rank)];
        node = {.memory_used_bytes = 500'000'000'000,
                .memory_total_bytes = 1'000'000'000'000,
                .gpus_seen = workers_of_node,
                .gpus = std::move(node.gpus)};
        node.traffic = {traffic_bytes, traffic_bytes, traffic_bytes, traffic_bytes};
        node.disks = {{"data", 1'000'000'000'000, 500'000'000'000}, {"scratch", 1'000'000'000'000, 500'000'000'000}};
        node.gpus.push_back(gpu(rank));
    }
    return live;
}

Records records(std::uint32_t workers) {
    Records records;
    records.cluster_id = "c0ffee00";
    ShownRun& run = records.runs[{1}];
    run.state = RunState::running;
    run.attempts = 1;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
        records.nodes[node_of(rank)].gpus = workers_of_node;
        run.gpus.push_back({.node = node_of(rank), .device = rank % workers_of_node, .rank = {rank}});
    }
    return records;
}

}  // namespace

int main(int argc, char** argv) {
    const auto workers = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 5'000);
    const int texts = argc > 2 ? std::atoi(argv[2]) : 7;
    Metrics metrics("1.2.3");
    const Live seen = live(workers);
    for (int i = 0; i < texts; ++i) {
        Records taken = records(workers);
        const double begin = cpu_ms();
        const std::string text = metrics.text(std::move(taken), seen);
        const double ms = cpu_ms() - begin;
        std::printf("%.1f ms for %zu lines, %.2f MB\n", ms, static_cast<std::size_t>(std::ranges::count(text, '\n')),
                    static_cast<double>(text.size()) / 1e6);
    }
}

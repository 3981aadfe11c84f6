// The number of series in a scrape: fewer than 60 for a worker, and bounded for a run of any size.
#include <algorithm>
#include <set>
#include <sstream>

#include "daemon/metrics/metrics.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::metrics;

namespace {

LiveWorker worker(std::uint32_t rank, std::uint32_t attempt = 1) {
    LiveWorker worker{.attempt = {.run = {1}, .number = attempt}, .rank = {rank}};
    worker.resident_bytes = 100;
    worker.cpu_ms = 1'000;
    worker.heartbeat_age_seconds = 1;
    worker.data_wait_seconds = 2;
    worker.step_ms = rank == 4'321 ? 900 : 100;
    worker.traffic = {.network_received = 10, .network_sent = 20, .disk_read = 30, .disk_written = 40};
    return worker;
}

// Returns one node for each eight workers, with a GPU for each worker.
Live live(std::uint32_t workers) {
    Live live;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
        live.workers.push_back(worker(rank));
        LiveGpu gpu{.index = rank % 8, .uuid = "GPU-" + std::to_string(rank)};
        gpu.utilization_ratio = gpu.power_watts = gpu.temperature_celsius = 1;
        gpu.memory_total_bytes = 80;
        gpu.ecc_corrected = gpu.ecc_uncorrected = gpu.foreign_processes = gpu.foreign_memory_bytes = 0;
        for (std::uint64_t xid = 13; xid < 23; ++xid) gpu.xids[xid] = 1;
        live.nodes[{"n" + std::to_string(rank / 8)}].gpus.push_back(gpu);
    }
    return live;
}

Records records(std::uint32_t workers, std::uint32_t attempts = 1) {
    Records records;
    records.cluster_id = "c0ffee00";
    ShownRun& run = records.runs[{1}];
    run.state = RunState::running;
    run.attempts = attempts;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
        const NodeId node{"n" + std::to_string(rank / 8)};
        records.nodes[node].gpus = 8;
        run.gpus.push_back({.node = node, .device = rank % 8, .rank = {rank}});
    }
    return records;
}

std::vector<std::string> series(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream all(text);
    for (std::string line; std::getline(all, line);)
        if (!line.starts_with('#')) lines.push_back(line);
    return lines;
}

std::size_t with(const std::vector<std::string>& lines, const std::string& part) {
    return static_cast<std::size_t>(std::count_if(
        lines.begin(), lines.end(), [&](const std::string& line) { return line.find(part) != line.npos; }));
}

bool page_has(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("a worker with a GPU that has had ten kinds of errors has less than 60 series, and more than its own few") {
    Metrics metrics("1.2.3");
    const auto lines = series(metrics.text(records(8), live(8)));
    const std::size_t of_worker = with(lines, "rank=\"3\""), of_gpu = with(lines, R"(node="n0",gpu="3"})");
    CHECK(of_worker >= 9);
    CHECK(of_gpu + with(lines, R"(node="n0",gpu="3",)") >= 19);
    CHECK(of_worker + of_gpu + with(lines, R"(node="n0",gpu="3",)") < 60);
    // The series that one more worker with its GPU adds.
    Metrics other("1.2.3");
    const std::size_t more = series(other.text(records(16), live(16))).size();
    CHECK((more - lines.size()) / 8 < 60);
}

TEST_CASE("above 5,000 workers a run shows rank 0, its slowest rank and its sums") {
    Metrics metrics("1.2.3");
    const std::string all = metrics.text(records(5'000), live(5'000));
    CHECK(with(series(all), "rtrain_worker_cpu_seconds_total{") == 5'000);

    const std::string text = metrics.text(records(5'001), live(5'001));
    const auto lines = series(text);
    std::set<std::string> ranks;
    for (const std::string& line : lines)
        if (line.starts_with("rtrain_worker_"))
            if (const auto at = line.find("rank=\""); at != line.npos)
                ranks.insert(line.substr(at, line.find('"', at + 6) - at));
    CHECK(ranks == std::set<std::string>{"rank=\"0", "rank=\"4321"});
    CHECK(page_has(text, R"(rtrain_run_workers{run_id="c0ffee-1"} 5001)"));
    CHECK(page_has(text, R"(rtrain_run_cpu_seconds_total{run_id="c0ffee-1"} 5001)"));
    CHECK(page_has(text, R"(rtrain_run_disk_written_bytes_total{run_id="c0ffee-1"} 200040)"));
}

TEST_CASE("sums over workers never fall: not when a node is cut off, nor when the next attempt begins") {
    Metrics metrics("1.2.3");
    const auto cpu = [&](const Live& now, std::uint32_t attempts) {
        const std::string text = metrics.text(records(2, attempts), now),
                          name = "rtrain_run_cpu_seconds_total{run_id=\"c0ffee-1\"} ";
        const auto at = text.find(name);
        REQUIRE(at != std::string::npos);
        return std::stod(text.substr(at + name.size()));
    };
    CHECK(cpu(live(2), 1) == 2);
    CHECK(cpu(live(1), 1) == 2);  // One worker has no sample.
    Live later = live(2);
    later.workers[1].cpu_ms = 5'000;
    CHECK(cpu(later, 1) == 6);
    Live next;
    next.workers = {worker(0, 2), worker(1, 2)};
    CHECK(cpu(next, 2) == 8);
    next.workers[0].traffic.disk_read = {};  // This worker has none either.
    CHECK(metrics.text(records(2, 2), next).find("rtrain_run_disk_read_bytes_total{run_id=\"c0ffee-1\"} 120") !=
          std::string::npos);
}

TEST_CASE("of many waiting runs a bounded number has samples, of each user, and all are counted") {
    Cluster cluster;
    cluster.meta.cluster_id = "c0ffee00";
    constexpr std::size_t runs = 20'000;
    for (std::uint64_t number = 1; number <= runs; ++number) {
        Run& run = cluster.runs[{number}];
        run.id = {number};
        run.user = number < runs ? "ana" : "ben";
        run.name = "r" + std::to_string(number);
    }
    Sampling sampling(cluster, Time{1'000}, 1'000);
    while (sampling.step()) {}
    const Records taken = sampling.finish();
    CHECK(taken.runs.size() == waiting_shown_of_user + 1);
    CHECK(taken.runs.contains({runs}));  // Runs of ana hide no run of ben.
    Metrics metrics("1.2.3");
    const std::string text = metrics.text(taken, {});
    CHECK(text.size() < 1'000'000);
    CHECK(text.find("rtrain_runs{state=\"QUEUED\"} 20000") != std::string::npos);
}

// Heartbeats become samples of nodes and ranks; reports become numbers of rank 0.
#include "daemon/head/history/usage.hpp"

#include <algorithm>

#include "daemon/head/history/cluster_use.hpp"
#include "daemon/head/history/report_numbers.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

using Numbers = std::vector<std::pair<std::string, double>>;

HeardHeartbeat heard_at(std::int64_t second, const protocol::Heartbeat& heartbeat) {
    return {.node = "n1",
            .wall_ms = 1'800'000'000'000 + second * 1'000,
            .monotonic_ms = 50'000 + second * 1'000,
            .heartbeat = heartbeat,
            .workers = {{0, {.run = RunId{7}, .rank = 3, .gpus = {1, 2}}}}};
}

protocol::Heartbeat heartbeat(std::int64_t seconds_worked) {
    protocol::Heartbeat out{.memory_used = 5'000, .memory_total = 9'000};
    out.cpu_ms = 1'000 * seconds_worked;
    out.traffic = {.network_received = 100 * seconds_worked, .network_sent = 7, .disk_read = -1, .disk_written = 0};
    out.gpus.resize(3);
    for (std::int64_t i = 1; i < 3; ++i)
        out.gpus[static_cast<std::size_t>(i)] = {
            .utilization_percent = 40 * i, .memory_used = 10 * i, .memory_total = 100};
    out.workers.push_back({.rank = 3, .resident_bytes = 1'234, .cpu_ms = 500 * seconds_worked});
    return out;
}

double value_of(const SubjectSample& sample, const std::string& key) {
    for (const auto& [name, value] : sample.second.values)
        if (name == key) return value;
    return -1;
}

}  // namespace

TEST_CASE("a counter becomes a rate over some seconds, and what is not told is left out") {
    UsageRates rates;
    const auto first = rates.samples(heard_at(0, heartbeat(10)));
    REQUIRE(first.size() == 2);
    CHECK(first[0].first == "node/n1");
    CHECK(first[1].first == "rank/7/3");
    CHECK(value_of(first[0], "cpu_cores") == -1);  // One sample gives no rate.
    CHECK(value_of(first[0], "memory_bytes") == 5'000);
    CHECK(value_of(first[0], "gpu0_memory_bytes") == -1);  // The GPU does not answer.
    CHECK(value_of(first[0], "gpu2_utilization_ratio") == 0.8);
    CHECK(value_of(first[1], "gpu_utilization_ratio") == Approx(0.6));  // The mean of the rank's own two GPUs.
    CHECK(value_of(first[1], "gpu_memory_bytes") == 30);
    CHECK(value_of(rates.samples(heard_at(4, heartbeat(18)))[0], "cpu_cores") == -1);
    const auto later = rates.samples(heard_at(10, heartbeat(30)));
    CHECK(value_of(later[0], "cpu_cores") == Approx(2));
    CHECK(value_of(later[0], "network_received_bytes_per_second") == Approx(200));
    CHECK(value_of(later[0], "network_sent_bytes_per_second") == 0);
    CHECK(value_of(later[0], "disk_read_bytes_per_second") == -1);
    CHECK(value_of(later[1], "cpu_cores") == Approx(1));
    CHECK(later[0].second.at == 1'800'000'010);
    // A counter that begins anew gives no negative rate.
    CHECK(value_of(rates.samples(heard_at(20, heartbeat(1)))[0], "cpu_cores") == -1);
    rates.forget_before(1'000'000);
    CHECK(rates.subjects() == 0);
}

TEST_CASE("the own time of a rank is the part in which it did not wait") {
    UsageRates rates;
    const auto waited = [](std::int64_t barrier_wait_ms) {
        protocol::Heartbeat out = heartbeat(1);
        out.workers[0].barrier_wait_ms = barrier_wait_ms;
        out.workers[0].interval_ms = 250;
        return out;
    };
    CHECK(value_of(rates.samples(heard_at(0, waited(1'000)))[1], "own_time_ratio") == -1);
    const auto slow = rates.samples(heard_at(10, waited(3'000)));
    CHECK(value_of(slow[1], "own_time_ratio") == Approx(0.8));
    CHECK(value_of(slow[1], "report_interval_seconds") == 0.25);
    CHECK(value_of(slow[0], "own_time_ratio") == -1);  // a node has none
    CHECK(value_of(rates.samples(heard_at(20, waited(99'000)))[1], "own_time_ratio") == 0);
    CHECK(value_of(rates.samples(heard_at(30, waited(5)))[1], "own_time_ratio") == -1);  // the rank was started anew
    CHECK(value_of(rates.samples(heard_at(40, waited(-1)))[1], "own_time_ratio") == -1);
    CHECK(value_of(rates.samples(heard_at(60, waited(7)))[1], "own_time_ratio") == -1);
}

TEST_CASE("the numbers of rank 0 are read, and nothing behind them") {
    CHECK(
        numbers_of_rank_0(
            R"({"0":{"loss":0.5,"n":3,"deep":{"x":1},"list":[1,{"y":2}],"done":true,"name":"a","b":-2},"1":{"loss":9}})") ==
        Numbers{{"loss", 0.5}, {"n", 3}, {"done", 1}, {"b", -2}});
    CHECK(numbers_of_rank_0(R"({"1":{"loss":9},"10":{"0":{"x":1}}})").empty());
    CHECK(numbers_of_rank_0(R"({"0":{"loss":1},"1":{broken)") == Numbers{{"loss", 1}});
    CHECK(numbers_of_rank_0("nothing").empty());
}

TEST_CASE("the cluster uses the sum of its nodes, without silent ones") {
    ClusterUse use;
    const auto node = [](const char* name, std::int64_t wall_ms, Numbers values) {
        return SubjectSample{name, {.at = 0, .wall_ms = wall_ms, .attempt = 0, .step = 0, .values = std::move(values)}};
    };
    use.heard(node("node/a", 0, {{"cpu_cores", 64}, {"gpu0_utilization_ratio", 1}}));
    use.heard(node("node/b", 100'000, {{"cpu_cores", 2}, {"gpu0_utilization_ratio", 0.5}, {"gpu1_memory_bytes", 9}}));
    use.heard(node("node/c", 101'000, {{"cpu_cores", 3}, {"gpu0_utilization_ratio", 0.25}}));
    use.heard(node("node/c", 103'000, {{"gpu0_utilization_ratio", 0.75}}));  // Rates come less often than heartbeats.
    ClusterCounts counts{.wall_ms = 110'000, .gpus = 3, .gpus_allocated = 2, .cpus = 12, .cpus_allocated = 6};
    counts.runs_waiting = 4;
    const SubjectSample sample{history_of_cluster, use.sample(counts)};
    CHECK(sample.second.at == 110);
    CHECK(value_of(sample, "cpus_used") == 5);
    CHECK(value_of(sample, "gpus_used") == 1.25);
    CHECK(value_of(sample, "gpus_allocated") == 2);
    CHECK(value_of(sample, "runs_waiting") == 4);
    CHECK(value_of(sample, "storage_free_bytes") == -1);  // It is not known.
    CHECK(value_of({"", use.sample({.wall_ms = 900'000})}, "cpus_used") == -1);
}

// /metrics as Prometheus reads it, after one run failed on a node and another ended, with a GPU that lacks some values.
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "daemon/metrics/metrics.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/source_directory.hpp"

using namespace rtrain;
using namespace rtrain::metrics;

namespace {

constexpr std::int64_t minute_ms = 60'000;

Attempt attempt(RunId run, std::uint32_t number, AttemptState state) {
    Attempt attempt;
    attempt.id = {.run = run, .number = number};
    attempt.state = state;
    attempt.placed_at = Time{1'000 + 100'000 * number};
    attempt.started_at = Time{11'000 + 100'000 * number};
    attempt.prepared_at = Time{7'000 + 100'000 * number};
    if (terminal(state)) attempt.work_ended = Time{68'000 + 100'000 * number};
    if (terminal(state)) attempt.ended_at = Time{71'000 + 100'000 * number};
    attempt.workers.resize(2);
    for (Worker& worker : attempt.workers) worker.seat = {.node = {"n1"}, .gpus = {{.device = 0, .amount = {5'000}}}};
    return attempt;
}

Run run(RunId id, const std::string& name, RunState state) {
    Run run;
    run.id = id;
    run.name = name;
    run.user = "ana \"the\\first\"\n";
    run.spec.gang.bundles.resize(2);
    run.state = state;
    run.ended_wall_ms = terminal(state) ? 10 * minute_ms : 0;
    return run;
}

// Run 1 runs attempt 2, after a signal ended its attempt 1. Run 2 succeeded at minute 10. Run 3 waits.
Cluster cluster() {
    Cluster cluster;
    cluster.meta.cluster_id = "c0ffee00";
    Node node;
    node.id = {"n1"};
    node.gpus = 2;
    cluster.nodes[node.id] = node;
    node.id = {"n2"};
    node.state = NodeState::lost;
    cluster.nodes[node.id] = node;
    cluster.runs[{1}] = run({1}, "gpt", RunState::running);
    cluster.runs[{1}].attempts = 2;
    cluster.runs[{1}].submitted = Time{71'000};
    cluster.runs[{2}] = run({2}, "vit", RunState::succeeded);
    cluster.runs[{3}] = run({3}, "next", RunState::queued);
    Attempt failed = attempt({1}, 1, AttemptState::failed);
    failed.first_failure = Rank{1};
    failed.workers[1].exit = ExitCause{};
    failed.workers[1].exit->signal = 9;
    cluster.attempts[failed.id] = failed;
    Attempt running = attempt({1}, 2, AttemptState::running);
    running.from = "checkpoint_000001-a001";
    running.work_before = Duration{2 * 40'000};
    cluster.attempts[running.id] = running;
    Checkpoint checkpoint;
    checkpoint.run = {1};
    checkpoint.directory = "checkpoint_000001-a001";
    checkpoint.bytes = 1'000;
    checkpoint.committed_wall_ms = 9'500;
    checkpoint.committed = Time{151'000};
    cluster.checkpoints[{.run = {1}, .directory = checkpoint.directory}] = checkpoint;
    return cluster;
}

Live live() {
    Live live;
    live.longest_task_seconds = 0.25;
    live.longest_task_cpu_seconds = 0.125;
    LiveGpu gpu;
    gpu.uuid = "GPU-0abc";
    gpu.utilization_ratio = 0.75;
    gpu.temperature_celsius = std::numeric_limits<double>::quiet_NaN();
    gpu.memory_total_bytes = 80;
    gpu.xids = {{79, 2}};
    gpu.ecc_uncorrected = 3;
    gpu.foreign_processes = 1;
    gpu.foreign_memory_bytes = 2'048;
    LiveGpu lost;
    lost.index = 1;
    lost.uuid = "GPU-1abc";
    lost.xids = {{79, 1}};
    live.nodes[{"n1"}] = {.memory_used_bytes = 5, .memory_total_bytes = 10, .gpus_seen = 1, .gpus = {gpu, lost}};
    live.nodes[{"n1"}].traffic = {.network_received = 7, .network_sent = 8, .disk_read = 9, .disk_written = {}};
    live.nodes[{"n1"}].disks = {{.place = "scratch", .size_bytes = 100, .free_bytes = 40}};
    live.head_disk = LiveDisk{.place = "data", .size_bytes = 200, .free_bytes = 50};
    LiveRun of_run;
    of_run.step = 17;
    of_run.last_report_wall_ms = 8'250;
    for (int i = 10; i < 40; ++i) of_run.values["key" + std::to_string(i)] = i;
    live.runs[{1}] = of_run;
    live.workers.push_back(
        {.attempt = {.run = {1}, .number = 2},
         .rank = {1},
         .resident_bytes = 4'096,
         .cpu_ms = 1'500,
         .heartbeat_age_seconds = 0.25,
         .data_wait_seconds = std::nullopt,
         .barrier_wait_seconds = 2.5,
         .checkpoint_wait_seconds = std::nullopt,
         .step_ms = 5,
         .traffic = {.network_received = 70, .network_sent = 80, .disk_read = {}, .disk_written = {}}});
    return live;
}

void tell(Metrics& metrics) {
    metrics.http_request({.method = "GET", .route = "/v1/runs/{run}", .status = 200, .seconds = 0.004});
    metrics.commit(0.002);
    metrics.scheduled(0.000'03);
    metrics.left_queue("default", 12);
    metrics.reported({1}, 0.5);
    metrics.checkpoint_saved({.run = {1}, .save_seconds = 2, .blocked_seconds = 0.25});
    metrics.checkpoint_saved({.run = {1}, .save_seconds = 2, .blocked_seconds = 0.25});
    metrics.checkpoint_failed({2}, "storage_full");
    metrics.warned({2}, "missing_ranks");
}

Records records_of(const Cluster& cluster, std::int64_t wall_ms) {
    const auto waits_of = [](const AttemptId& attempt) {
        if (attempt.number == 1) return RankWaits{.checkpoint = {2'000}, .data = {20'000}, .straggler = {5'000}};
        return RankWaits{};
    };
    Sampling sampling(cluster, Time{271'000}, wall_ms, {}, waits_of);
    while (sampling.step()) continue;
    return sampling.finish();
}

std::string text_of(Metrics& metrics, const Cluster& cluster, std::int64_t wall_ms) {
    return metrics.text(records_of(cluster, wall_ms), live());
}

bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("a scrape has the lines of the release: names, types, help, labels, bounds and numbers") {
    Metrics metrics("1.2.3");
    tell(metrics);
    const auto sorted = [](const std::string& text) {
        std::istringstream lines(text);
        std::multiset<std::string> all;
        for (std::string line; std::getline(lines, line);) all.insert(line);
        return all;
    };
    std::ifstream file(test::source_directory() + "/tests/data/metrics-0.1.0.txt");
    std::stringstream release;
    release << file.rdbuf();
    REQUIRE(release.str().size() > 10'000);
    CHECK(sorted(text_of(metrics, cluster(), 12 * minute_ms)) == sorted(release.str()));
}

TEST_CASE("promtool finds nothing to say about the text") {
    Metrics metrics("1.2.3");
    tell(metrics);
    std::string text = text_of(metrics, cluster(), 12 * minute_ms);
    FILE* promtool = popen("promtool check metrics 2>&1", "w");
    REQUIRE(promtool);
    REQUIRE(fwrite(text.data(), 1, text.size(), promtool) == text.size());
    int status = pclose(promtool);
    INFO(text);
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a scrape shows what the records and the last heartbeats know") {
    Metrics metrics("1.2.3");
    std::string text = text_of(metrics, cluster(), 12 * minute_ms);
    INFO(text);
    for (const char* line : {
             R"(rtrain_build_info{version="1.2.3"} 1)",
             R"(rtrain_loop_stall_seconds{clock="wall"} 0.25)",
             R"(rtrain_loop_stall_seconds{clock="cpu"} 0.125)",
             R"(rtrain_nodes{state="READY"} 1)",
             R"(rtrain_nodes{state="LOST"} 1)",
             R"(rtrain_gpus{state="free"} 1)",
             R"(rtrain_gpus{state="allocated"} 1)",
             R"(rtrain_runs{state="RUNNING"} 1)",
             R"(rtrain_runs{state="SUCCEEDED"} 1)",
             R"(rtrain_queue_length{queue="default"} 1)",
             R"(rtrain_run_info{run_id="c0ffee-1",name="gpt",user="ana \"the\\first\"\n",queue="default"} 1)",
             R"(rtrain_run_state{run_id="c0ffee-1",state="RUNNING"} 1)",
             R"(rtrain_run_state{run_id="c0ffee-1",state="QUEUED"} 0)",
             R"(rtrain_run_step{run_id="c0ffee-1"} 17)",
             R"(rtrain_run_last_report_timestamp_seconds{run_id="c0ffee-1"} 8.25)",
             R"(rtrain_run_attempts_total{run_id="c0ffee-1"} 2)",
             R"(rtrain_run_failures_total{run_id="c0ffee-1",reason="signal"} 1)",
             R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="queue"} 30)",
             R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="detect"} 3)",
             R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="schedule"} 30)",
             R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="start"} 16)",
             R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="restore"} 4)",
             R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="replay"} 17)",
             R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="checkpoint"} 2)",
             R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="data"} 20)",
             R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="straggler"} 5)",
             R"(rtrain_run_goodput_ratio{run_id="c0ffee-1"} 0.4294117647058823)",
             R"(rtrain_worker_barrier_wait_seconds_total{run_id="c0ffee-1",rank="1"} 2.5)",
             R"(rtrain_run_metric{run_id="c0ffee-1",key="key10"} 10)",
             R"(rtrain_worker_cpu_seconds_total{run_id="c0ffee-1",rank="1"} 1.5)",
             R"(rtrain_worker_heartbeat_age_seconds{run_id="c0ffee-1",rank="1"} 0.25)",
             R"(rtrain_checkpoint_bytes{run_id="c0ffee-1"} 1000)",
             R"(rtrain_checkpoint_last_success_timestamp_seconds{run_id="c0ffee-1"} 9.5)",
             R"(rtrain_gpu_utilization_ratio{node="n1",gpu="0"} 0.75)",
             R"(rtrain_gpu_xid_events_total{node="n1",gpu="0",xid="79"} 2)",
             R"(rtrain_gpu_xid_events_total{node="n1",gpu="1",xid="79"} 1)",
             R"(rtrain_gpu_ecc_errors_total{node="n1",gpu="0",kind="uncorrected"} 3)",
             R"(rtrain_gpu_foreign_processes{node="n1",gpu="0"} 1)",
             R"(rtrain_gpu_foreign_memory_bytes{node="n1",gpu="0"} 2048)",
             R"(rtrain_node_up{node="n1"} 1)",
             R"(rtrain_node_up{node="n2"} 0)",
             R"(rtrain_memory_total_bytes{node="n1"} 10)",
             R"(rtrain_node_network_receive_bytes_total{node="n1"} 7)",
             R"(rtrain_node_network_transmit_bytes_total{node="n1"} 8)",
             R"(rtrain_node_disk_read_bytes_total{node="n1"} 9)",
             R"(rtrain_node_disk_size_bytes{node="n1",place="scratch"} 100)",
             R"(rtrain_node_disk_free_bytes{node="n1",place="scratch"} 40)",
             R"(rtrain_head_disk_free_bytes{place="data"} 50)",
             R"(rtrain_worker_network_receive_bytes_total{run_id="c0ffee-1",rank="1"} 70)",
             R"(rtrain_worker_network_transmit_bytes_total{run_id="c0ffee-1",rank="1"} 80)",
             R"(rtrain_run_workers{run_id="c0ffee-1"} 1)",
             R"(rtrain_run_resident_memory_bytes{run_id="c0ffee-1"} 4096)",
             R"(rtrain_run_cpu_seconds_total{run_id="c0ffee-1"} 1.5)",
             R"(rtrain_run_network_receive_bytes_total{run_id="c0ffee-1"} 70)",
             R"(rtrain_node_gpus_expected{node="n1"} 2)",
             R"(rtrain_node_gpus_seen{node="n1"} 1)",
             R"(rtrain_gpu_allocation_info{node="n1",gpu="0",gpu_uuid="GPU-0abc",run_id="c0ffee-1",rank="1"} 1)",
         }) {
        CAPTURE(line);
        CHECK(has_line(text, line));
    }
    CHECK(text.find("temperature") == std::string::npos);
    CHECK(text.find("node_disk_written") == std::string::npos);
    CHECK(text.find("worker_disk") == std::string::npos);
    CHECK(text.find(R"(rtrain_gpu_memory_total_bytes{node="n1",gpu="1"})") == std::string::npos);
    CHECK(text.find(R"(kind="corrected")") == std::string::npos);
    CHECK(text.find("key29\"") != std::string::npos);
    CHECK(text.find("key30\"") == std::string::npos);
}

TEST_CASE("what the head told is counted, also with reasons") {
    Metrics metrics("1.2.3");
    tell(metrics);
    std::string text = text_of(metrics, cluster(), 12 * minute_ms);
    INFO(text);
    for (const char* line : {
             R"(rtrain_http_request_duration_seconds_count{method="GET",route="/v1/runs/{run}",status="200"} 1)",
             R"(rtrain_log_commit_duration_seconds_bucket{le="0.0025"} 1)",
             R"(rtrain_log_commit_duration_seconds_bucket{le="0.001"} 0)",
             R"(rtrain_queue_wait_seconds_sum{queue="default"} 12)",
             R"(rtrain_worker_report_interval_seconds_count{run_id="c0ffee-1"} 1)",
             R"(rtrain_checkpoint_blocked_seconds_total{run_id="c0ffee-1"} 0.5)",
             R"(rtrain_checkpoint_failures_total{run_id="c0ffee-2",reason="storage_full"} 1)",
             R"(rtrain_run_warnings_total{run_id="c0ffee-2",reason="missing_ranks"} 1)",
         }) {
        CAPTURE(line);
        CHECK(has_line(text, line));
    }
}

TEST_CASE("a run that was never placed has its time in the queue, and no ratio") {
    Metrics metrics("1.2.3");
    const std::string text = text_of(metrics, cluster(), 12 * minute_ms);
    CHECK(has_line(text, R"(rtrain_run_lost_seconds_total{run_id="c0ffee-3",phase="queue"} 271)"));
    CHECK(text.find(R"(c0ffee-3",phase="start)") == std::string::npos);
    CHECK(text.find(R"(rtrain_run_goodput_ratio{run_id="c0ffee-3")") == std::string::npos);
}

TEST_CASE("a counter does not fall when a death that is heard of late takes time from its cause") {
    Metrics metrics("1.2.3");
    Cluster earlier = cluster();
    Attempt& alive = earlier.attempts[{.run = {1}, .number = 1}];
    alive.work_ended = {};
    CHECK(has_line(text_of(metrics, earlier, 12 * minute_ms),
                   R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="replay"} 20)"));
    const std::string text = text_of(metrics, cluster(), 12 * minute_ms);
    CHECK(has_line(text, R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="replay"} 20)"));
    CHECK(has_line(text, R"(rtrain_run_lost_seconds_total{run_id="c0ffee-1",phase="detect"} 3)"));
}

TEST_CASE("a run leaves fifteen minutes after its end, with all that was told about it") {
    Metrics metrics("1.2.3");
    tell(metrics);
    CHECK(text_of(metrics, cluster(), 25 * minute_ms - 1).find("c0ffee-2") != std::string::npos);
    CHECK(text_of(metrics, cluster(), 25 * minute_ms).find("c0ffee-2") == std::string::npos);
    CHECK(text_of(metrics, cluster(), 12 * minute_ms).find("missing_ranks") == std::string::npos);
    CHECK(text_of(metrics, cluster(), 25 * minute_ms).find("c0ffee-1") != std::string::npos);
}

TEST_CASE("of many runs that ended the last five hundred are shown, and all that live") {
    Metrics metrics("1.2.3");
    Cluster crowd = cluster();
    for (std::uint64_t number = 100; number < 700; ++number) {
        Run ended = run({number}, "short-" + std::to_string(number), RunState::succeeded);
        ended.ended_wall_ms = 11 * minute_ms + static_cast<std::int64_t>(number);
        crowd.runs[{number}] = ended;
    }
    const std::string text = text_of(metrics, crowd, 12 * minute_ms);
    CHECK(text.find("\"short-199\"") == std::string::npos);
    CHECK(text.find("\"short-200\"") != std::string::npos);
    CHECK(text.find("\"short-699\"") != std::string::npos);
    CHECK(text.find("\"vit\"") == std::string::npos);
    CHECK(text.find("\"gpt\"") != std::string::npos);
}

TEST_CASE("an empty cluster has a text too") {
    Metrics metrics("1.2.3");
    std::string text = metrics.text(records_of({}, 0), Live{});
    CHECK(has_line(text, R"(rtrain_nodes{state="READY"} 0)"));
    CHECK(has_line(text, R"(rtrain_queue_length{queue="default"} 0)"));
}

TEST_CASE("what is told of a run that began after the records were taken is kept for the next scrape") {
    Metrics metrics("1.2.3");
    Cluster then = cluster();
    const Records records = records_of(then, 12 * minute_ms);
    then.runs[{4}] = run({4}, "late", RunState::running);
    metrics.warned({4}, "missing_ranks");
    metrics.warned({2}, "missing_ranks");
    CHECK(metrics.text(records, live()).find("c0ffee-4") == std::string::npos);
    const std::string text = text_of(metrics, then, 12 * minute_ms);
    CHECK(has_line(text, R"(rtrain_run_warnings_total{run_id="c0ffee-4",reason="missing_ranks"} 1)"));
    CHECK(has_line(text, R"(rtrain_run_warnings_total{run_id="c0ffee-2",reason="missing_ranks"} 1)"));
}

TEST_CASE("records that change while they are taken are shown as they were at their step") {
    Cluster changing = cluster();
    std::vector<RunId> taken;
    Sampling sampling(changing, Time{271'000}, 12 * minute_ms, [&](RunId id) { taken.push_back(id); });
    REQUIRE(sampling.step());
    changing.runs.erase({2});  // The run has ended, and its row is the last one.
    changing.runs[{3}].state = RunState::starting;
    changing.runs[{4}] = run({4}, "late", RunState::queued);
    while (sampling.step()) continue;
    const Records records = sampling.finish();
    CHECK(taken == std::vector<RunId>{{1}, {3}, {4}});
    CHECK(records.runs.size() == 3);
    CHECK(records.runs.at({3}).state == RunState::starting);
    CHECK(records.last_seen == RunId{4});
}

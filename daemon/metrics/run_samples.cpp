// Samples of each run: its state, its attempts, the causes of failures, its time by cause; and of its workers.
#include <array>
#include <memory>
#include <utility>

#include "daemon/metrics/worker_totals.hpp"

namespace rtrain::metrics {
namespace {

constexpr std::size_t values_limit = 20;
constexpr std::array states = {RunState::queued,     RunState::starting, RunState::running,
                               RunState::recovering, RunState::resizing, RunState::stopping,
                               RunState::succeeded,  RunState::failed,   RunState::stopped};

double seconds(Duration duration) { return static_cast<double>(duration.ms) / 1e3; }

// A run that was never placed has the time in the queue only, because thousands may wait.
void add_times(Families& families, const std::string& id, const ShownRun& run) {
    for (const TimeCause cause : time_causes)
        if (cause == TimeCause::queue || (cause != TimeCause::productive && run.attempts > 0))
            families.add("run_lost_seconds_total", {{"run_id", id}, {"phase", to_text(cause)}},
                         seconds(run.time[cause]));
    if (run.attempts > 0) families.add("run_goodput_ratio", {{"run_id", id}}, run.time.goodput());
}

void add_live(Families& families, const std::string& id, const LiveRun& live) {
    families.add("run_step", {{"run_id", id}}, static_cast<double>(live.step));
    if (live.last_report_wall_ms > 0)
        families.add("run_last_report_timestamp_seconds", {{"run_id", id}},
                     static_cast<double>(live.last_report_wall_ms) / 1e3);
    if (live.skew_ratio) families.add("worker_skew_ratio", {{"run_id", id}}, *live.skew_ratio);
    std::size_t shown = 0;
    for (const auto& [key, value] : live.values)
        if (shown++ < values_limit) families.add("run_metric", {{"run_id", id}, {"key", key}}, value);
}

using OptionalValue = std::optional<double>;
struct WorkerMetric {
    const char* name;
    OptionalValue (*value)(const LiveWorker&);
};
constexpr WorkerMetric worker_metrics[] = {
    {"worker_data_wait_seconds_total", [](const LiveWorker& of) { return of.data_wait_seconds; }},
    {"worker_barrier_wait_seconds_total", [](const LiveWorker& of) { return of.barrier_wait_seconds; }},
    {"worker_checkpoint_wait_seconds_total", [](const LiveWorker& of) { return of.checkpoint_wait_seconds; }},
    {"worker_heartbeat_age_seconds", [](const LiveWorker& of) { return of.heartbeat_age_seconds; }},
    {"worker_resident_memory_bytes",
     [](const LiveWorker& of) { return OptionalValue(static_cast<double>(of.resident_bytes)); }},
    {"worker_cpu_seconds_total",
     [](const LiveWorker& of) { return OptionalValue(static_cast<double>(of.cpu_ms) / 1e3); }},
    {"worker_network_receive_bytes_total", [](const LiveWorker& of) { return of.traffic.network_received; }},
    {"worker_network_transmit_bytes_total", [](const LiveWorker& of) { return of.traffic.network_sent; }},
    {"worker_disk_read_bytes_total", [](const LiveWorker& of) { return of.traffic.disk_read; }},
    {"worker_disk_written_bytes_total", [](const LiveWorker& of) { return of.traffic.disk_written; }},
};

struct ShownWorker {
    const LiveWorker* worker;
    SampleLabels labels;
};

}  // namespace

void add_run_samples(Families& families, const Records& records, const Live& live) {
    for (const auto& [run_id, run] : records.runs) {
        const std::string id = run_id_text(records.cluster_id, run_id);
        families.add("run_info", {{"run_id", id}, {"name", run.name}, {"user", run.user}, {"queue", run.queue}}, 1);
        for (RunState state : states)
            families.add("run_state", {{"run_id", id}, {"state", to_text(state)}}, run.state == state ? 1 : 0);
        families.add("run_attempts_total", {{"run_id", id}}, run.attempts);
        for (const auto& [reason, count] : run.failures)
            families.add("run_failures_total", {{"run_id", id}, {"reason", reason}}, count);
        add_times(families, id, run);
        if (auto known = live.runs.find(run_id); known != live.runs.end()) add_live(families, id, known->second);
        if (!run.newest) continue;
        families.add("checkpoint_bytes", {{"run_id", id}}, static_cast<double>(run.newest->bytes));
        families.add("checkpoint_last_success_timestamp_seconds", {{"run_id", id}},
                     static_cast<double>(run.newest->committed_wall_ms) / 1e3);
    }
}

std::vector<Part> worker_parts(const Records& records, const Live& live) {
    auto shown = std::make_shared<std::vector<ShownWorker>>();
    const auto chosen = shown_workers(live);
    for (const LiveWorker& worker : live.workers)
        if (chosen.contains({worker.attempt, worker.rank}))
            shown->push_back({&worker,
                              {{"run_id", run_id_text(records.cluster_id, worker.attempt.run)},
                               {"rank", std::to_string(worker.rank.value)}}});
    std::vector<Part> parts;
    for (const WorkerMetric& metric : worker_metrics)
        parts.emplace_back([shown, metric](Families& families) {
            prometheus::MetricFamily& family = families.of(metric.name);
            family.metric.reserve(shown->size());
            for (const ShownWorker& of : *shown)
                if (const OptionalValue value = metric.value(*of.worker)) add_sample(family, of.labels, *value);
        });
    return parts;
}

}  // namespace rtrain::metrics

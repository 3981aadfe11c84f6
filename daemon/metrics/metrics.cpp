// Counters and histograms of the head's events, and the scrape. The counters of a run are removed when the run is no
// longer shown.
#include "daemon/metrics/metrics.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <tuple>
#include <utility>

#include "daemon/metrics/exposition.hpp"
#include "daemon/metrics/families.hpp"
#include "daemon/metrics/histogram.hpp"
#include "daemon/metrics/worker_totals.hpp"

namespace rtrain::metrics {
namespace {

constexpr std::array microseconds = {1e-5, 2.5e-5, 1e-4, 2.5e-4, 1e-3, 2.5e-3, 1e-2, 2.5e-2, 0.1, 0.25, 1.0};
constexpr std::array fine = {5e-5,   1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 7.5e-3, 1e-2,
                             1.5e-2, 2e-2, 3e-2, 5e-2, 0.1,  0.2,  0.5,  1.0,  2.5};
constexpr std::array milliseconds = {1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0};
constexpr std::array minutes = {0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3'600.0};
constexpr std::array hours = {0.1,   1.0,     5.0,      15.0,     60.0,     300.0,
                              900.0, 3'600.0, 14'400.0, 43'200.0, 86'400.0, 604'800.0};

constexpr std::size_t series_limit = 2'000;  // series of requests; routes x methods x statuses stay far below

struct OfRun {  // the counters of one run
    Histogram report_interval{milliseconds};
    Histogram save{minutes};
    double blocked_seconds = 0;
    bool has_reports = false, has_saves = false;
    std::map<std::string, std::uint64_t> checkpoint_failures, warnings;  // key: the reason
    TimeByCause shown;                                                   // values of the last scrape
};

void add_run_metrics(Families& families, const std::string& id, const OfRun& of_run) {
    if (of_run.has_reports)
        families.add("worker_report_interval_seconds", {{"run_id", id}}, of_run.report_interval.counts());
    if (of_run.has_saves) {
        families.add("checkpoint_save_duration_seconds", {{"run_id", id}}, of_run.save.counts());
        families.add("checkpoint_blocked_seconds_total", {{"run_id", id}}, of_run.blocked_seconds);
    }
    for (const auto& [reason, count] : of_run.checkpoint_failures)
        families.add("checkpoint_failures_total", {{"run_id", id}, {"reason", reason}}, static_cast<double>(count));
    for (const auto& [reason, count] : of_run.warnings)
        families.add("run_warnings_total", {{"run_id", id}, {"reason", reason}}, static_cast<double>(count));
}

}  // namespace

struct Metrics::Body {
    std::string program_version;
    std::mutex mutex;
    Histogram commit{microseconds}, scheduling{microseconds}, decision{fine};
    std::map<std::tuple<std::string, std::string, int>, Histogram> requests;  // key: method, route, status
    std::map<std::string, Histogram> queue_wait;
    std::map<std::string, std::uint64_t, std::less<>> spans;                  // by outcome
    std::map<std::pair<std::string, std::string>, std::uint64_t> autoscaled;  // key: action, result
    std::map<RunId, OfRun> runs;
    WorkerTotals totals;

    void add_head_metrics(Families& families);
    void add_all_runs(Families& families, const Records& records);
    void keep_rising(ShownRun& shown, RunId run);
};

Metrics::Metrics(std::string program_version) : body_(std::make_unique<Body>()) {
    body_->program_version = std::move(program_version);
}
Metrics::~Metrics() = default;

void Metrics::http_request(const HttpRequest& request) {
    std::lock_guard held(body_->mutex);
    std::tuple key{std::string(request.method), std::string(request.route), request.status};
    if (body_->requests.size() >= series_limit && !body_->requests.contains(key)) return;
    body_->requests.try_emplace(std::move(key), milliseconds).first->second.observe(request.seconds);
}

void Metrics::commit(double seconds) { body_->commit.observe(seconds); }
void Metrics::scheduled(double seconds) { body_->scheduling.observe(seconds); }
void Metrics::decided(double seconds) { body_->decision.observe(seconds); }

void Metrics::spans(std::string_view outcome, std::size_t count) {
    std::lock_guard held(body_->mutex);
    body_->spans[std::string(outcome)] += count;
}

void Metrics::left_queue(const std::string& queue, double waited_seconds) {
    std::lock_guard held(body_->mutex);
    body_->queue_wait.try_emplace(queue, hours).first->second.observe(waited_seconds);
}

void Metrics::reported(RunId run, double seconds_since_last) {
    std::lock_guard held(body_->mutex);
    OfRun& of_run = body_->runs[run];
    of_run.has_reports = true;
    of_run.report_interval.observe(seconds_since_last);
}

void Metrics::checkpoint_saved(const CheckpointSaved& saved) {
    std::lock_guard held(body_->mutex);
    OfRun& of_run = body_->runs[saved.run];
    of_run.has_saves = true;
    of_run.save.observe(saved.save_seconds);
    of_run.blocked_seconds += saved.blocked_seconds;
}

void Metrics::checkpoint_failed(RunId run, const std::string& reason) {
    std::lock_guard held(body_->mutex);
    ++body_->runs[run].checkpoint_failures[reason];
}

void Metrics::autoscaled(const std::string& action, const std::string& result) {
    std::lock_guard held(body_->mutex);
    ++body_->autoscaled[{action, result}];
}

void Metrics::warned(RunId run, const std::string& reason) {
    std::lock_guard held(body_->mutex);
    ++body_->runs[run].warnings[reason];
}

// The mutex is held for one run at a time, so the loop, which counts meanwhile, never waits long.
void Metrics::Body::add_all_runs(Families& families, const Records& records) {
    std::vector<RunId> known;
    {
        std::lock_guard held(mutex);
        for (const auto& [run, of_run] : runs) known.push_back(run);
    }
    for (const RunId run : known) {
        std::lock_guard held(mutex);
        const auto counted = runs.find(run);
        if (!records.runs.contains(run)) {
            if (run <= records.last_seen) runs.erase(counted);
            continue;
        }
        add_run_metrics(families, run_id_text(records.cluster_id, run), counted->second);
    }
}

// A death that is reported late reduces the time of other causes. Counters must not fall because of that: Prometheus
// would take it for a restart of the head.
void Metrics::Body::keep_rising(ShownRun& shown, RunId run) {
    std::lock_guard held(mutex);
    TimeByCause& before = runs[run].shown;
    for (const TimeCause cause : time_causes)
        if (cause != TimeCause::productive)
            shown.time.ms(cause) = before.ms(cause) = std::max(before[cause].ms, shown.time[cause].ms);
}

void Metrics::Body::add_head_metrics(Families& families) {
    families.add("build_info", {{"version", program_version}}, 1);
    families.add("log_commit_duration_seconds", {}, commit.counts());
    families.add("scheduling_duration_seconds", {}, scheduling.counts());
    families.add("decision_latency_seconds", {}, decision.counts());
    std::lock_guard held(mutex);
    for (const auto& [queue, waited] : queue_wait)
        families.add("queue_wait_seconds", {{"queue", queue}}, waited.counts());
    for (const auto& [outcome, count] : spans)
        families.add("trace_spans_total", {{"outcome", outcome}}, static_cast<double>(count));
    for (const auto& [key, count] : autoscaled)
        families.add("autoscale_commands_total", {{"action", key.first}, {"result", key.second}},
                     static_cast<double>(count));
    for (const auto& [key, seconds] : requests)
        families.add(
            "http_request_duration_seconds",
            {{"method", std::get<0>(key)}, {"route", std::get<1>(key)}, {"status", std::to_string(std::get<2>(key))}},
            seconds.counts());
}

std::string Metrics::text(Records records, const Live& live) {
    for (auto& [id, run] : records.runs) body_->keep_rising(run, id);
    std::vector<Part> parts;
    parts.emplace_back([&](Families& families) {
        body_->add_head_metrics(families);
        families.add("loop_stall_seconds", {{"clock", "cpu"}}, live.longest_task_cpu_seconds);
        families.add("loop_stall_seconds", {{"clock", "wall"}}, live.longest_task_seconds);
        body_->add_all_runs(families, records);
        add_cluster_samples(families, records);
        add_run_samples(families, records, live);
        body_->totals.add_samples(families, records, live);
        add_node_samples(families, records, live);
    });
    for (Part& part : worker_parts(records, live)) parts.push_back(std::move(part));
    for (Part& part : gpu_parts(records, live)) parts.push_back(std::move(part));
    parts.emplace_back([&](Families& families) { add_allocations(families, records, live); });
    return exposition_text(parts);
}

}  // namespace rtrain::metrics

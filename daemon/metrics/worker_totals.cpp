// See worker_totals.hpp.
#include "daemon/metrics/worker_totals.hpp"

#include <algorithm>

namespace rtrain::metrics {
namespace {

// A counter that fell has started again.
double growth(double now, double before) { return now >= before ? now - before : now; }

void grow(std::optional<double>& total, const std::optional<double>& now, const std::optional<double>& before) {
    if (now) total = total.value_or(0) + growth(*now, before.value_or(0));
}

void keep_known(std::optional<double>& now, const std::optional<double>& before) {
    if (!now) now = before;
}

struct Gauges {
    double workers = 0, resident_bytes = 0;
};

}  // namespace

std::set<std::pair<AttemptId, Rank>> shown_workers(const Live& live) {
    std::set<std::pair<AttemptId, Rank>> shown;
    std::map<AttemptId, const LiveWorker*> slowest;
    for (const LiveWorker& worker : live.workers) {
        if (live.workers.size() <= workers_shown_most || worker.rank == Rank{0})
            shown.insert({worker.attempt, worker.rank});
        const LiveWorker*& slow = slowest[worker.attempt];
        if (!slow || worker.step_ms > slow->step_ms) slow = &worker;
    }
    for (const auto& [attempt, worker] : slowest) shown.insert({attempt, worker->rank});
    return shown;
}

WorkerTotals::Counters WorkerTotals::counters_of(const LiveWorker& worker) {
    return {.cpu_seconds = static_cast<double>(worker.cpu_ms) / 1e3, .traffic = worker.traffic};
}

void WorkerTotals::add_samples(Families& families, const Records& records, const Live& live) {
    const std::lock_guard held(mutex_);
    std::map<RunId, Gauges> gauges;
    for (const LiveWorker& worker : live.workers) {
        Counters now = counters_of(worker);
        Counters& before = last_[{worker.attempt, worker.rank}];
        Counters& total = totals_[worker.attempt.run];
        total.cpu_seconds += growth(now.cpu_seconds, before.cpu_seconds);
        for (const auto part : {&LiveTraffic::network_received, &LiveTraffic::network_sent, &LiveTraffic::disk_read,
                                &LiveTraffic::disk_written}) {
            grow(total.traffic.*part, now.traffic.*part, before.traffic.*part);
            keep_known(now.traffic.*part, before.traffic.*part);
        }
        before = now;
        gauges[worker.attempt.run].workers += 1;
        gauges[worker.attempt.run].resident_bytes += static_cast<double>(worker.resident_bytes);
    }
    std::erase_if(last_, [&](const auto& worker) {
        const auto run = records.runs.find(worker.first.first.run);
        return run == records.runs.end() || worker.first.first.number < run->second.attempts;
    });
    std::erase_if(totals_, [&](const auto& total) { return !records.runs.contains(total.first); });
    for (const auto& [run, total] : totals_) {
        const SampleLabels labels = {{"run_id", run_id_text(records.cluster_id, run)}};
        families.add("run_workers", labels, gauges[run].workers);
        families.add("run_resident_memory_bytes", labels, gauges[run].resident_bytes);
        families.add("run_cpu_seconds_total", labels, total.cpu_seconds);
        add_traffic(families, "run", labels, total.traffic);
    }
}

}  // namespace rtrain::metrics

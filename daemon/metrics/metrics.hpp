// What /metrics says. The head tells what happened (counters, histograms); everything that can be read from the
// cluster's records (records.hpp) or from the last heartbeats is taken at each scrape. Names, types and help texts are
// one table (names.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/metrics/records.hpp"

namespace rtrain::metrics {

// ---- what the last heartbeats and reports contained; handed over at each scrape
// --------------------------------------------------
struct LiveTraffic {  // bytes
    std::optional<double> network_received, network_sent, disk_read, disk_written;
};
struct LiveWorker {
    AttemptId attempt;
    Rank rank;
    std::int64_t resident_bytes = 0, cpu_ms = 0;
    std::optional<double> heartbeat_age_seconds;
    std::optional<double> data_wait_seconds;  // since its start, as the next two
    std::optional<double> barrier_wait_seconds, checkpoint_wait_seconds;
    std::int64_t step_ms = 0;  // its last step; the rank with the longest one is the slowest
    LiveTraffic traffic{};
};
struct LiveGpu {
    std::uint32_t index = 0;
    std::string uuid;
    std::optional<double> utilization_ratio, power_watts, temperature_celsius;
    std::int64_t memory_used_bytes = 0, memory_total_bytes = 0;  // 0 in all: it does not answer
    std::map<std::uint64_t, std::uint64_t> xids;
    std::optional<double> ecc_corrected{}, ecc_uncorrected{}, foreign_processes{}, foreign_memory_bytes{};
};
struct LiveDisk {
    std::string place;  // data, scratch
    std::int64_t size_bytes = 0, free_bytes = 0;
};
struct LiveNode {
    std::int64_t memory_used_bytes = 0, memory_total_bytes = 0;
    std::optional<std::uint32_t> gpus_seen;  // by NVML, now; none: the agent does not tell
    std::vector<LiveGpu> gpus;
    LiveTraffic traffic{};
    std::vector<LiveDisk> disks{};
};
struct LiveRun {
    std::uint64_t step = 0;  // reports of the present attempt
    std::int64_t last_report_wall_ms = 0;
    std::map<std::string, double> values;  // of its last report; the first 20 by name are shown
    std::optional<double> skew_ratio;      // slowest rank's time between reports over the fastest's
};
struct Live {
    std::map<NodeId, LiveNode> nodes;
    std::map<RunId, LiveRun> runs;
    std::vector<LiveWorker> workers;                                // of attempts that have not ended
    double longest_task_seconds = 0, longest_task_cpu_seconds = 0;  // of the head's loop
    std::optional<LiveDisk> head_disk{};                            // of the data directory
};

struct HttpRequest {
    std::string_view method, route;  // the route's pattern, never the path that was asked for
    int status = 200;
    double seconds = 0;
};
struct CheckpointSaved {
    RunId run;
    double save_seconds = 0;     // from the report to the commit
    double blocked_seconds = 0;  // of it, what report() waited
};

class Metrics {  // may be called from any thread
  public:
    explicit Metrics(std::string program_version);
    ~Metrics();

    void http_request(const HttpRequest& request);
    void commit(double seconds);     // of the journal
    void scheduled(double seconds);  // decisions on the events that came together
    void decided(double seconds);    // of one event: from its coming to its decision; `commit` is apart
    void left_queue(const std::string& queue, double waited_seconds);  // a run's first attempt was placed
    void reported(RunId run, double seconds_since_last);               // one worker's report() to its next
    void checkpoint_saved(const CheckpointSaved& saved);
    void checkpoint_failed(RunId run, const std::string& reason);
    void autoscaled(const std::string& action, const std::string& result);  // a command of the autoscaler has ended
    void spans(std::string_view outcome, std::size_t count);                // of traces: sent, dropped
    void warned(RunId run, const std::string& reason);                      // missing_ranks, storage_full, ...

    // Returns Prometheus' text format. What was counted of runs that are not among the records any more is forgotten.
    std::string text(Records records, const Live& live);
    static constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

  private:
    struct Body;
    std::unique_ptr<Body> body_;
};

}  // namespace rtrain::metrics

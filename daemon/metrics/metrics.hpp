// The content of /metrics. The head reports its events (counters, histograms). Values that follow from the cluster's
// records (records.hpp) or from the last heartbeats are computed at each scrape. Names, types and help texts are one
// table (names.cpp).
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
struct LiveTraffic {  // in bytes
    std::optional<double> network_received, network_sent, disk_read, disk_written;
};
struct LiveWorker {
    AttemptId attempt;
    Rank rank;
    std::int64_t resident_bytes = 0, cpu_ms = 0;
    std::optional<double> heartbeat_age_seconds;
    std::optional<double> data_wait_seconds;  // since the worker's start, like the next two
    std::optional<double> barrier_wait_seconds, checkpoint_wait_seconds;
    std::int64_t step_ms = 0;  // duration of its last step; the rank with the longest one is the slowest
    LiveTraffic traffic{};
};
struct LiveGpu {
    std::uint32_t index = 0;
    std::string uuid;
    std::optional<double> utilization_ratio, power_watts, temperature_celsius;
    std::int64_t memory_used_bytes = 0, memory_total_bytes = 0;  // total 0: the node does not report it
    std::map<std::uint64_t, std::uint64_t> xids;
    std::optional<double> ecc_corrected{}, ecc_uncorrected{}, foreign_processes{}, foreign_memory_bytes{};
};
struct LiveDisk {
    std::string place;  // place: data, scratch
    std::int64_t size_bytes = 0, free_bytes = 0;
};
struct LiveUser {  // bytes that the head keeps for a user, by place: memory, database, files
    std::string user;
    std::map<std::string, std::int64_t> kept_bytes, limit_bytes;
    std::size_t streams = 0;  // open ones
};
struct LiveNode {
    std::int64_t memory_used_bytes = 0, memory_total_bytes = 0;
    std::optional<std::uint32_t> gpus_seen;  // by NVML, now; nullopt: the agent does not report it
    std::vector<LiveGpu> gpus;
    LiveTraffic traffic{};
    std::vector<LiveDisk> disks{};
};
struct LiveRun {
    std::uint64_t step = 0;  // number of reports of the present attempt
    std::int64_t last_report_wall_ms = 0;
    std::map<std::string, double> values;  // values of its last report; the first 20 by name are shown
    std::optional<double> skew_ratio;      // time between reports of the slowest rank divided by that of the fastest
};
struct Live {
    std::map<NodeId, LiveNode> nodes;
    std::map<RunId, LiveRun> runs;
    std::vector<LiveWorker> workers;                                // workers of attempts that have not ended
    double longest_task_seconds = 0, longest_task_cpu_seconds = 0;  // measured in the event loop of the head
    std::optional<LiveDisk> head_disk{};                            // disk of the data directory
    std::vector<LiveUser> users{};
    std::map<std::string, bool> head_disk_reserved{};  // true: only the reserve is left; by what is refused then
};

struct HttpRequest {
    std::string_view method, route;  // the route's pattern, never the requested path
    int status = 200;
    double seconds = 0;
};
struct CheckpointSaved {
    RunId run;
    double save_seconds = 0;     // time from the report to the commit
    double blocked_seconds = 0;  // part of it in which report() waited
};

class Metrics {  // callable from any thread
  public:
    explicit Metrics(std::string program_version);
    ~Metrics();

    void http_request(const HttpRequest& request);
    void commit(double seconds);     // a commit of the journal
    void scheduled(double seconds);  // the decisions about events that arrived together
    void decided(double seconds);    // time of one event from its arrival to its decision; `commit` is separate
    void left_queue(const std::string& queue, double waited_seconds);  // a run's first attempt was placed
    void reported(RunId run, double seconds_since_last);               // time from one report() of a worker to its next
    void checkpoint_saved(const CheckpointSaved& saved);
    void checkpoint_failed(RunId run, const std::string& reason);
    void autoscaled(const std::string& action, const std::string& result);  // a command of the autoscaler has ended
    void spans(std::string_view outcome, std::size_t count);                // for traces: sent, dropped
    void warned(RunId run, const std::string& reason);                      // missing_ranks, storage_full, ...

    // Returns Prometheus' text format. Removes the counters of runs that are no longer among the records.
    std::string text(Records records, const Live& live);
    static constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

  private:
    struct Body;
    std::unique_ptr<Body> body_;
};

}  // namespace rtrain::metrics

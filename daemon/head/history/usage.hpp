// PURE: makes samples of nodes and ranks from agents' heartbeats: CPU, memory, GPUs, network, disks. Counters become
// rates over some seconds, since agents measure traffic each five seconds only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/protocol/heartbeat.hpp"
#include "scheduler/model/ids.hpp"
#include "storage/history/store.hpp"

namespace rtrain::head {

std::string history_of_run(RunId run);
std::string history_of_node(const std::string& node);
std::string history_of_rank(RunId run, std::uint32_t rank);
std::string history_of_ranks(RunId run);  // the common prefix of the subjects of the run's ranks

struct WorkerPlace {
    RunId run;
    std::uint32_t rank = 0;
    std::vector<std::uint32_t> gpus;  // numbers of the rank's GPUs on its node
};

struct HeardHeartbeat {
    std::string node;
    std::int64_t wall_ms = 0, monotonic_ms = 0;
    protocol::Heartbeat heartbeat;
    // index in the heartbeat's list of workers, and the worker; only workers of live attempts
    std::vector<std::pair<std::size_t, WorkerPlace>> workers;
};

// The use of a rank's GPUs, given by their numbers on its node. nullopt: no GPU reports it.
struct GpuUse {
    std::optional<double> utilization_ratio;   // mean utilization
    std::optional<std::int64_t> memory_bytes;  // sum of the used bytes
};
GpuUse gpu_use(const std::vector<protocol::GpuHeartbeat>& gpus, const std::vector<std::uint32_t>& own);

using SubjectSample = std::pair<std::string, history::NamedSample>;

class UsageRates {
  public:
    std::vector<SubjectSample> samples(const HeardHeartbeat& heard);
    void forget_before(std::int64_t monotonic_ms);  // removes subjects that had no heartbeat since this time
    std::size_t subjects() const { return before_.size(); }

  private:
    struct Counters {  // last values of counters; -1: unknown
        std::int64_t cpu_ms = -1, barrier_wait_ms = -1;
        protocol::Traffic traffic{};
        std::int64_t monotonic_ms = 0, heard_ms = 0;
    };
    void add_rates(history::NamedSample& sample, const std::string& subject, Counters now);

    std::map<std::string, Counters> before_;
};

}  // namespace rtrain::head

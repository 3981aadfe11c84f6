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
std::string history_of_ranks(RunId run);  // the prefix of the names of all its ranks

struct WorkerPlace {
    RunId run;
    std::uint32_t rank = 0;
    std::vector<std::uint32_t> gpus;  // numbers on its node
};

struct HeardHeartbeat {
    std::string node;
    std::int64_t wall_ms = 0, monotonic_ms = 0;
    protocol::Heartbeat heartbeat;
    std::vector<std::pair<std::size_t, WorkerPlace>> workers;  // by index in the heartbeat; workers of live attempts
};

// The use of a rank's GPUs, given by their numbers on its node. nullopt: no GPU reports it.
struct GpuUse {
    std::optional<double> utilization_ratio;   // the mean
    std::optional<std::int64_t> memory_bytes;  // the sum
};
GpuUse gpu_use(const std::vector<protocol::GpuHeartbeat>& gpus, const std::vector<std::uint32_t>& own);

using SubjectSample = std::pair<std::string, history::NamedSample>;

class UsageRates {
  public:
    std::vector<SubjectSample> samples(const HeardHeartbeat& heard);
    void forget_before(std::int64_t monotonic_ms);  // forgets subjects without a heartbeat since then
    std::size_t subjects() const { return before_.size(); }

  private:
    struct Counters {  // -1: unknown
        std::int64_t cpu_ms = -1, barrier_wait_ms = -1;
        protocol::Traffic traffic{};
        std::int64_t monotonic_ms = 0, heard_ms = 0;
    };
    void add_rates(history::NamedSample& sample, const std::string& subject, Counters now);

    std::map<std::string, Counters> before_;
};

}  // namespace rtrain::head

// PURE: makes samples of the whole cluster: its resources, allocations and use, and the head's health.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "daemon/head/history/usage.hpp"

namespace rtrain::head {

inline constexpr const char* history_of_cluster = "cluster";

// Numbers that the loop counts from the records, and measured values of the head itself. nullopt: not known.
struct ClusterCounts {
    std::int64_t wall_ms = 0;
    double gpus = 0, gpus_allocated = 0;
    double cpus = 0, cpus_allocated = 0;
    std::size_t runs_waiting = 0, runs_running = 0;
    std::optional<double> head_memory_bytes, head_longest_task_seconds, data_free_bytes, storage_free_bytes;
};

// Adds up the use of all nodes from their newest samples.
class ClusterUse {
  public:
    void heard(const SubjectSample& of_node);
    history::NamedSample sample(const ClusterCounts& counts);

  private:
    struct OfNode {
        std::int64_t wall_ms = 0;
        std::optional<double> cpus, gpus;  // CPUs in use; `gpus`: the sum of the GPUs' utilizations
    };
    std::map<std::string, OfNode> nodes_;
};

}  // namespace rtrain::head

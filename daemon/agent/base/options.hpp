// The options of an agent, from its command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/agent/base/limits.hpp"
#include "scheduler/model/resources.hpp"

namespace rtrain {

// How an agent holds a run's workers to the `memory` that the run asked for.
enum class MemoryLimits {
    automatic,  // cgroup where a memory controller can be used, else watch
    off,
    watch,  // the agent measures each rank and ends one that is above its limit
    cgroup  // the kernel does, for all ranks of an attempt on the node together
};

struct AgentOptions {
    std::string data_dir;
    std::string head_host;  // empty: as at the last join
    std::uint16_t head_port = 7433;
    struct HeadAddress {
        std::string host;
        std::uint16_t port = 7433;
    };
    std::vector<HeadAddress> other_heads{};  // where the same cluster's head may serve instead, such as a restored one
    std::string node{};                      // empty: the host's name
    std::string address{};           // how other nodes reach this one; empty: our end of the connection to the head
    std::uint16_t peer_port = 7434;  // 0: any
    bool allow_root_workers = false;
    std::string storage_rules{};           // a file: which users may use which storage paths; empty: all that it can
    bool allow_setuid = false;             // programs of jobs may gain rights: sudo, ping, fusermount
    bool end_workers = false;              // SIGTERM and SIGINT end the workers too: nobody will come to adopt them
    std::int64_t drain_on_sigterm_ms = 0;  // SIGTERM drains the node and ends the agent within this; 0: it does not
    std::vector<std::string> pass_env{};   // of the agent's environment, for jobs: "NAME", "PREFIX*"
    std::string scratch{};                 // node-local fast disk; empty: <data_dir>/scratch
    std::int64_t scratch_quota = 0;        // bytes of it; 0: no quota
    std::int64_t disk_reserve = agent::limits::disk_reserve;  // bytes of the data directory's disk that stay free
    std::int64_t reserve_memory = 0;                          // bytes of the node's memory that it does not offer
    MemoryLimits memory_limits = MemoryLimits::automatic;
    bool warm = false;                                 // Python workers are forked from templates, where one fits
    std::int64_t warm_memory = std::int64_t{2} << 30;  // bytes, of all templates together
    // These replace what the inventory finds on the node:
    Resources resources{};
    std::string fake_gpus{};  // "8xA100"
    std::string accelerator_type{};
    Labels labels{};
    std::string program{};  // knows the hidden verb __shim; empty: /proc/self/exe
};

}  // namespace rtrain

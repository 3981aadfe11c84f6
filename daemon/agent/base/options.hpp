// The options of an agent, from its command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/agent/base/limits.hpp"
#include "scheduler/model/resources.hpp"

namespace rtrain {

// The way in which an agent enforces the `memory` of a run's workers.
enum class MemoryLimits {
    automatic,  // cgroup if a memory controller is available, otherwise watch
    off,
    watch,  // the agent measures each rank and ends one that exceeds its limit
    cgroup  // the kernel enforces one limit for all ranks of an attempt on the node
};

// Whether Python workers are forked from templates.
enum class WarmMode {
    off,
    on,
    automatic  // on where a share of the node's memory is enough for a template
};

struct AgentOptions {
    std::string data_dir;
    std::string head_host;  // empty: the head of the last join
    std::uint16_t head_port = 7433;
    struct HeadAddress {
        std::string host;
        std::uint16_t port = 7433;
    };
    // Addresses at which the same cluster's head may serve instead, for example after a restore.
    std::vector<HeadAddress> other_heads{};
    std::string node{};              // empty: the host's name
    std::string address{};           // address for other nodes; empty: the local address of the connection to the head
    std::uint16_t peer_port = 7434;  // 0: any
    bool allow_root_workers = false;
    std::string storage_rules{};  // a file with the storage paths that users may use; empty: no restrictions
    bool allow_setuid = false;    // programs of jobs may gain privileges: sudo, ping, fusermount
    // SIGTERM and SIGINT end the workers too, since no later agent will adopt them.
    bool end_workers = false;
    std::int64_t drain_on_sigterm_ms = 0;  // SIGTERM drains the node and ends the agent within this time; 0: no drain
    std::vector<std::string> pass_env{};   // variables of the agent's environment that jobs get: "NAME", "PREFIX*"
    std::string scratch{};                 // a directory on a fast local disk; empty: <data_dir>/scratch
    std::int64_t scratch_quota = 0;        // bound on its bytes; 0: no quota
    std::int64_t disk_reserve = agent::limits::disk_reserve;  // bytes of the data directory's disk that stay free
    std::int64_t reserve_memory = 0;                          // bytes of the node's memory that it does not offer
    MemoryLimits memory_limits = MemoryLimits::automatic;
    WarmMode warm = WarmMode::off;
    std::int64_t warm_memory = 0;  // bytes of all templates together; 0: as many as the mode gives
    std::int64_t agents_here = 1;  // agents of one `rtrain up`, which share the machine's memory
    // The options below replace values of the node's inventory.
    Resources resources{};
    std::string fake_gpus{};  // "8xA100"
    std::string accelerator_type{};
    Labels labels{};
    std::string program{};  // a program with the hidden verb __shim; empty: /proc/self/exe
};

}  // namespace rtrain

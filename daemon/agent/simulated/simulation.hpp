// Many simulated nodes in one process, with real connections. Each joins, has its own certificate and mutual-TLS
// WebSocket, and uses the agents' protocol. For testing a head, its queues and its limits without machines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "scheduler/model/resources.hpp"

namespace rtrain {

struct SimulationOptions {
    std::string head_host;
    std::uint16_t head_port = 7433;
    std::string token;  // a join token for `count` nodes
    std::uint32_t count = 100;
    std::string prefix = "sim";  // sim-0001, sim-0002, ...
    std::uint32_t cpus = 8;
    std::string resources;  // replaces or extends the processors and 64 GiB: "custom=2"
    std::string fake_gpus;  // "8xA100"; empty: none
    Labels labels{};        // beside simulated=true
    std::uint64_t seed = 1;
    std::int64_t run_ms = 5'000;  // average run time of workers
};
struct SimulationStarted {
    // Time until all certificates were issued; then until all nodes were welcomed.
    std::int64_t join_ms = 0, register_ms = 0;
};
struct SimulationEnd {
    std::uint64_t workers_ended = 0;
};

std::string simulated_name(const SimulationOptions& options, std::uint32_t index);  // from 0

// Runs the nodes until SIGTERM or SIGINT; then the head treats them as lost. `ready` is called once all nodes were
// welcomed.
Result<SimulationEnd> run_simulation(const SimulationOptions& options,
                                     const std::function<void(const SimulationStarted&)>& ready);

}  // namespace rtrain

// Many simulated nodes in one process, with real connections: each joins, has a certificate and a mutual-TLS WebSocket
// of its own, and speaks the agents' protocol. For trying a head, its queues and its limits without machines.
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
    std::string token;  // of nodes, good for as many as `count`
    std::uint32_t count = 100;
    std::string prefix = "sim";  // sim-0001, sim-0002, ...
    std::uint32_t cpus = 8;
    std::string resources;  // beside or instead of the processors and 64 GiB: "custom=2"
    std::string fake_gpus;  // "8xA100"; empty: none
    Labels labels{};        // beside simulated=true
    std::uint64_t seed = 1;
    std::int64_t run_ms = 5'000;  // how long workers run, on average
};
struct SimulationStarted {
    std::int64_t join_ms = 0, register_ms = 0;  // all certificates; then until all were welcomed
};
struct SimulationEnd {
    std::uint64_t workers_ended = 0;
};

std::string simulated_name(const SimulationOptions& options, std::uint32_t index);  // from 0

// Runs the nodes until SIGTERM or SIGINT; the head takes them for lost then. `ready` is called once all nodes were
// welcomed.
Result<SimulationEnd> run_simulation(const SimulationOptions& options,
                                     const std::function<void(const SimulationStarted&)>& ready);

}  // namespace rtrain

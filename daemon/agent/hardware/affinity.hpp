// The processors on which a worker may run: near its GPUs, so that memory and PCI traffic stay on one socket.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/agent/hardware/inventory.hpp"
#include "daemon/protocol/messages.hpp"

namespace rtrain::agent {

// `policy` is the job's scaling.cpu_affinity. near_gpus: the processors near the worker's GPUs; a worker without GPUs,
// or with one whose processors are unknown, is not restricted. none: no restriction. even: the node's processors in
// equal parts by local rank, for an attempt that has the node to itself. An empty result is no restriction.
std::vector<std::uint32_t> processors_for(const std::string& policy, const protocol::LaunchWorker& worker,
                                          std::size_t workers_here, const Inventory& inventory);
std::string processor_list(const std::vector<std::uint32_t>& processors);  // "0-3,8"

}  // namespace rtrain::agent

// Runs a small program on a node, as a job of the caller, and reads what the program found there. Works with agents of
// every version, since the probe is an ordinary run without resources.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cmd/client/api.hpp"
#include "cmd/line/invocation.hpp"

namespace rtrain::cmd {

struct NodeAnswer {
    std::string node;
    std::string failed;  // why the probe returned no answer; empty: it returned one
    std::string python, torch, torch_error, rtrain,
        // Versions of Python, torch and rtrain on the node; `torch_error`: why torch cannot be imported; `accelerator`:
        // what torch was built for, such as CUDA. An empty text: not installed.
        accelerator;
    std::string executable;
    std::int64_t drivers_gpus = -1;  // number of GPUs that the NVIDIA driver lists; -1: there is no driver
    // the node's clock minus this machine's clock, in ms; 0: no difference beyond the probe's duration
    std::int64_t ahead_ms = 0;
    // addresses of other agents that the node cannot reach, each with the reason
    std::vector<std::string> unreachable{};
    // `not_stored`: a file that did not get into the storage path; `storage_unknown`: why that could not be checked
    std::string storage_path, not_stored, storage_unknown;
};

// Probes all nodes at once. `nodes` are rows of /v1/nodes. Reads --interpreter and --storage-path of `call`.
std::vector<NodeAnswer> probe_nodes(Invocation& call, Api& api, const nlohmann::json& nodes);
// Reads the line that the probe printed. A node may send anything, so values of a wrong type are ignored, and texts are
// cut and lose their control characters.
void read_answer(const std::string& line, std::int64_t begun_ms, std::int64_t ended_ms, NodeAnswer& answer);

}  // namespace rtrain::cmd

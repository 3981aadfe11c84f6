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
    std::string failed;  // why there is no answer; empty if there is one
    std::string python, torch, torch_error, rtrain,
        accelerator;  // versions and what torch is built for; empty: missing
    std::string executable;
    std::int64_t drivers_gpus = -1;          // GPUs that the NVIDIA driver lists; -1: no driver
    std::int64_t ahead_ms = 0;               // the node's clock beside this machine's; 0: within the probe's time
    std::vector<std::string> unreachable{};  // other agents' addresses, each with the reason
    std::string storage_path, not_stored, storage_unknown;  // files that did not reach the path; why it cannot be read
};

// Probes all nodes at once. `nodes` are rows of /v1/nodes. Reads --interpreter and --storage-path of `call`.
std::vector<NodeAnswer> probe_nodes(Invocation& call, Api& api, const nlohmann::json& nodes);
// Reads the line that the program printed. A node may send anything: values of another type are left out, texts are cut
// and lose their control characters.
void read_answer(const std::string& line, std::int64_t begun_ms, std::int64_t ended_ms, NodeAnswer& answer);

}  // namespace rtrain::cmd

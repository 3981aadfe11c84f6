// The facts about this agent: its identity, files and hardware, and the paths of its socket and library for workers.
// The start collects these facts. Later only the certificate (head/certificate_renewal.hpp) and the head's address
// change.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/agent/base/options.hpp"
#include "daemon/agent/base/warm_memory.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/disk/short_names.hpp"
#include "daemon/agent/hardware/cgroup.hpp"
#include "daemon/agent/hardware/inventory.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/peers/identity.hpp"
#include "daemon/agent/preparation/preparation.hpp"

namespace rtrain::agent {

struct ThisNode {
    AgentOptions options{};
    Identity identity{};
    NodeFiles files{};
    std::map<std::string, std::string> inherited{};  // the part of the agent's environment for jobs
    std::string worker_library{}, socket_path{};
    ShortNames short_names{};                   // short names of TMPDIRs
    std::shared_ptr<storage::Store> on_head{};  // the store of cluster://
    Inventory inventory{};
    WarmDecision warm{};
    std::optional<Cgroups> cgroups{};
    MemoryLimits memory_limits = MemoryLimits::off;  // set by Agent::open; never automatic

    const std::string& name() const { return identity.node; }
    NodeFacts facts() const;  // a copy for the pool
    // Makes the next of the head's addresses the one to connect to, if there are others. The present one becomes the
    // last.
    void take_next_head();
};

// Reads the operator's rules, finds the hardware and makes the agent's directories. An Error: the agent cannot serve.
// Cgroups are not opened yet.
Result<ThisNode> find_this_node(const AgentOptions& options, Identity identity);

// Returns the machine's state before the first input, without the port for other agents and the earlier news.
AgentState first_state(const ThisNode& node);

}  // namespace rtrain::agent

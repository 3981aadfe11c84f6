// Decides whether an agent forks Python workers from templates, and how much memory the templates may take. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/agent/base/options.hpp"

namespace rtrain::agent {

struct WarmDecision {
    bool on = false;
    std::int64_t memory_max = 0;   // bytes of all templates together
    std::int64_t memory_left = 0;  // bytes that must be available on the node beside a new template; 0: any amount
    std::string why_off{};  // the reason if the agent decided by itself, empty if an option turns warm starts off
    bool operator==(const WarmDecision&) const = default;
};

// `node_memory` is the bytes that the node offers. `WarmMode::automatic` takes a tenth of them for templates, divided
// by the number of agents on this machine, and is off where the result is too small for one template.
WarmDecision decide_warm_starts(const AgentOptions& options, std::int64_t node_memory);
// Returns why a new template would leave too little memory to the jobs; empty if it may be made.
std::string why_no_memory(const WarmDecision& decision, std::int64_t available);

}  // namespace rtrain::agent

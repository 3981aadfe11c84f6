// Measures the memory of ranks that have a limit, each 250 ms, where no control group limits them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/agent/workers/rank_memory.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

// Sets `node.memory_limits` and its fact from the options and from the node's control groups. Fails if the options
// require control groups and there are none with a memory controller.
Status decide_memory_limits(ThisNode& node);

class MemoryWatch {
  public:
    MemoryWatch(Inputs inputs, net::Background background, const AgentState& state, const ThisNode& node)
        : inputs_(inputs), background_(background), state_(state), node_(node) {}
    void begin();  // measures from now on, while an attempt has a limit

  private:
    struct Target {
        AttemptKey attempt;
        std::uint32_t rank = 0;
        std::int64_t pid = 0, limit = 0;
        MeasuredRank measured{};
    };
    struct Look {
        MemoryMeasured measured{};
        std::vector<Target> targets{};
    };
    std::vector<Target> targets();
    void look();

    const Inputs inputs_;
    const net::Background background_;
    const AgentState& state_;
    const ThisNode& node_;
    bool looking_ = false;
    int looks_ = 0;
    std::map<std::pair<AttemptKey, std::uint32_t>, MeasuredRank> ranks_;  // state of the last measurement
};

}  // namespace rtrain::agent

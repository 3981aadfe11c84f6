// Inputs and outputs about this node itself: it is taken away, or another node does not answer.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/protocol/node_life.hpp"

namespace rtrain::agent {

// ---- inputs
// The node is taken away after `grace_ms`, by the person who runs it (SIGTERM with --drain-on-sigterm) or by its cloud.
// `ends`: the agent ends by then at the latest; else the machine will.
struct ReclaimAsked {
    std::string why{};
    std::int64_t grace_ms = 0;
    bool ends = false;
    bool operator==(const ReclaimAsked&) const = default;
};
struct AgentDialled {  // the answer to DialAgent
    std::uint64_t id = 0;
    bool answered = false;
    bool operator==(const AgentDialled&) const = default;
};

// ---- outputs
struct DialAgent {  // checks whether the other node's machine answers
    protocol::DialPeer order{};
    bool operator==(const DialAgent&) const = default;
};
struct EndAgent {  // ends the agent and its remaining workers
    std::string why{};
    bool operator==(const EndAgent&) const = default;
};

}  // namespace rtrain::agent

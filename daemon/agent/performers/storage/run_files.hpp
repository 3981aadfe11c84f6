// Orders of the head about a run's files, whether an attempt of it is on this node or not.
#pragma once

#include <cstdint>

#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/performers/head/head_link.hpp"
#include "daemon/agent/performers/storage/pending_deliveries.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class RunFiles {
  public:
    RunFiles(Inputs inputs, const AgentState& state, net::Background background, const ThisNode& node,
             PendingDeliveries& pending, HeadLink& head)
        : inputs_(inputs), state_(state), background_(background), node_(node), pending_(pending), head_(head) {}
    void remove_checkpoint(const RemoveCheckpoint& out);
    void write_result(const WriteResultFile& out);
    void clear(const protocol::Clear& order);  // removes the run's files and answers the head

  private:
    void try_clear(const protocol::Clear& order, std::int64_t until_ms);

    const Inputs inputs_;
    const AgentState& state_;
    const net::Background background_;
    const ThisNode& node_;
    PendingDeliveries& pending_;
    HeadLink& head_;
};

}  // namespace rtrain::agent

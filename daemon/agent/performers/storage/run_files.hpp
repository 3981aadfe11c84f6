// Orders of the head about a run's files, whether an attempt of it is on this node or not.
#pragma once

#include <cstdint>

#include "daemon/agent/loop/agent_loop.hpp"
#include "daemon/agent/performers/head/head_link.hpp"
#include "daemon/agent/performers/storage/pending_deliveries.hpp"
#include "daemon/agent/performers/this_node.hpp"

namespace rtrain::agent {

class RunFiles {
  public:
    RunFiles(AgentLoop& loop, const ThisNode& node, PendingDeliveries& pending, HeadLink& head)
        : loop_(loop), node_(node), pending_(pending), head_(head) {}
    void remove_checkpoint(const RemoveCheckpoint& out);
    void write_result(const WriteResultFile& out);
    void clear(const protocol::Clear& order);  // removes the run's files; the head is answered

  private:
    void try_clear(const protocol::Clear& order, std::int64_t until_ms);

    AgentLoop& loop_;
    const ThisNode& node_;
    PendingDeliveries& pending_;
    HeadLink& head_;
};

}  // namespace rtrain::agent

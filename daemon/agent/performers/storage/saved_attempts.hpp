// Stores the parts of an attempt that an agent's restart needs, as a file in its directory on this node.
#pragma once

#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"

namespace rtrain::agent {

class SavedAttempts {
  public:
    SavedAttempts(const ThisNode& node, LiveAttempts& attempts) : node_(node), attempts_(attempts) {}
    void save(const KeepAttempt& out);
    void mark_ended(AttemptKey key);  // no process is left, but the head may lack some of its logs

  private:
    const ThisNode& node_;
    LiveAttempts& attempts_;
};

}  // namespace rtrain::agent

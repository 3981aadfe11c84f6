// The preparation of an attempt in steps: storage access and probe, the other nodes' probes, `setup:`, peers and start
// directories, claim. Each step blocks on the pool; the next one begins on the loop.
#pragma once

#include <set>
#include <string>

#include "daemon/agent/delivery/log_shipper.hpp"
#include "daemon/agent/hardware/ports.hpp"
#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/agent/preparation/setup_runner.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class Preparations {
  public:
    Preparations(Inputs inputs, const AgentState& state, net::Background background, const ThisNode& node,
                 LiveAttempts& attempts, LogShipper& logs);
    void start(const StartPreparation& out);
    // Ends a setup that is no longer needed. The machine then gets a failed preparation.
    void cancel(AttemptKey key) { setups_.cancel(key); }
    void remove_unused();  // at the start and each day: removes code and setups of ended attempts
    void bound_caches();   // at the start and each hour (compile_caches.hpp)
    void bound_setups();   // at the start and every ten minutes: enforces each user's share

  private:
    std::set<std::string> in_use() const;  // the argument of `remove_unused` in preparation/
    bool stopped(AttemptKey key) const;
    void await_probes(const Context& context, const ProbeWait& wait);
    void look_at_probes(const Context& context, const ProbeWait& seen);
    void set_up(const Context& context);
    void set_up_failed(const Context& context, const std::string& why);
    void finish(const Context& context);
    void prepared(const Context& context, const storage::ClaimAnswer& claimed);

    const Inputs inputs_;
    const AgentState& state_;
    const net::Background background_;
    const ThisNode& node_;
    LiveAttempts& attempts_;
    LogShipper& logs_;
    Ports ports_;
    SetupRunner setups_;
};

}  // namespace rtrain::agent

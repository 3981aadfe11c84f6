// Files that the storage did not accept when an attempt ended (delivery/pending_delivery.hpp). The agent tries again
// when the head is reachable again, and with growing pauses. The next agent continues. Only after a delivery are the
// attempt's files removed.
#pragma once

#include <map>
#include <set>
#include <string>

#include "daemon/agent/delivery/log_shipper.hpp"
#include "daemon/agent/delivery/pending_delivery.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class PendingDeliveries {
  public:
    PendingDeliveries(const AgentState& state, net::Background background, const ThisNode& node,
                      const LiveAttempts& attempts, LogShipper& logs)
        : state_(state), background_(background), node_(node), attempts_(attempts), logs_(logs) {}

    void leave_behind(AttemptKey key, PendingDelivery delivery, const std::string& why);
    void write_end(const WriteEnd& out);
    // Finds a delivery of an attempt that ended before this agent's start.
    void find_of_ended(const SavedAttempt& saved);
    void deliver_all();                   // called when the head is reachable again
    bool has_logs(AttemptKey key) const;  // its logs are still on this node

    void let_go(AttemptKey key);  // called when the head has all of its logs
    void forget(AttemptKey key);  // its files on this node may be removed

    // Blocks deliveries while the files of a run are removed, since later writes would recreate them. Returns why they
    // cannot be removed now; empty if they can.
    std::string hold(const protocol::Clear& order);
    void release(const protocol::Clear& order, bool removed);

  private:
    void keep(AttemptKey key, PendingDelivery delivery);
    void deliver_in(AttemptKey key, std::int64_t ms);
    void deliver_now(AttemptKey key);
    void tried(AttemptKey key, const std::optional<storage::AttemptEnd>& end, const Tried& tried);
    void stays(AttemptKey key, PendingDelivery& delivery, const std::string& why);
    void is_done(AttemptKey key);

    const AgentState& state_;
    const net::Background background_;
    const ThisNode& node_;
    const LiveAttempts& attempts_;
    LogShipper& logs_;
    std::map<AttemptKey, PendingDelivery> deliveries_;
    std::set<std::string> looking_at_;  // storage paths of attempts that ended before this agent's start
};

}  // namespace rtrain::agent

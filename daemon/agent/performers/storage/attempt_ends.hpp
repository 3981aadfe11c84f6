// The end of an attempt on this node, when no process is left: delivers its logs to the run's directory, and removes
// its own files.
#pragma once

#include <string>

#include "daemon/agent/delivery/log_shipper.hpp"
#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/storage/metrics_journals.hpp"
#include "daemon/agent/performers/storage/pending_deliveries.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class AttemptEnds {
  public:
    AttemptEnds(Inputs inputs, net::Background background, const ThisNode& node, LiveAttempts& attempts,
                MetricsJournals& journals, PendingDeliveries& pending, LogShipper& logs)
        : inputs_(inputs),
          background_(background),
          node_(node),
          attempts_(attempts),
          journals_(journals),
          pending_(pending),
          logs_(logs) {}
    void finish_logs(const FinishLogs& out);
    void close(const CloseAttempt& out);

  private:
    struct Delivered {
        Status metrics{Done{}}, logs{Done{}};
    };
    void finished(AttemptKey key, PendingDelivery delivery, const Delivered& done);

    const Inputs inputs_;
    const net::Background background_;
    const ThisNode& node_;
    LiveAttempts& attempts_;
    MetricsJournals& journals_;
    PendingDeliveries& pending_;
    LogShipper& logs_;
};

}  // namespace rtrain::agent

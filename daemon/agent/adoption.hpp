// The attempts that an agent before this one has left on this node.
#pragma once

#include "daemon/agent/delivery/log_shipper.hpp"
#include "daemon/agent/performers/storage/checkpoints.hpp"
#include "daemon/agent/performers/storage/metrics_journals.hpp"
#include "daemon/agent/performers/storage/pending_deliveries.hpp"
#include "daemon/agent/performers/workers/worker_starts.hpp"

namespace rtrain::agent {

struct Adopters {
    Inputs inputs;
    const ThisNode& node;
    LiveAttempts& attempts;
    WorkerStarts& workers;
    Checkpoints& checkpoints;
    MetricsJournals& journals;
    PendingDeliveries& pending;
    LogShipper& logs;
};

// Takes over the attempts on disk; called at the start, before the first connection. Attempts whose files cannot be
// read are left alone, and logged.
void adopt_kept_attempts(const Adopters& adopters);

}  // namespace rtrain::agent

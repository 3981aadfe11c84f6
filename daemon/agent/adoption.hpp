// Adopts the attempts that this node's agent had before its restart.
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

// Takes over the attempts on disk. The agent calls it once, before its first connection. Attempts with unreadable files
// are logged and skipped.
void adopt_kept_attempts(const Adopters& adopters);

}  // namespace rtrain::agent

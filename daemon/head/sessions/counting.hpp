// The head's own counters of /metrics: queue waits, checkpoints, reports, warnings.
#pragma once

#include "daemon/head/view/view.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/protocol/messages.hpp"

namespace rtrain::head {

void count_placed(metrics::Metrics& metrics, const Cluster& cluster,
                  const Attempt& attempt);  // counts the queue wait; called when an attempt was placed
// Counts reports, checkpoints and warnings. To be called before the reports are stored.
void count_news(metrics::Metrics& metrics, const View& view, const protocol::News& news);

}  // namespace rtrain::head

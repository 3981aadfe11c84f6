// The head's own counters of /metrics: queue waits, checkpoints, reports, warnings.
#pragma once

#include "daemon/head/view/view.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/protocol/messages.hpp"

namespace rtrain::head {

void count_placed(metrics::Metrics& metrics, const Cluster& cluster,
                  const Attempt& attempt);  // a run's first attempt was placed
void count_news(metrics::Metrics& metrics, const View& view, const protocol::News& news);  // before the reports take it

}  // namespace rtrain::head

// Parts of an explanation. Inside of the core only.
#pragma once

#include <string>
#include <vector>

#include "scheduler/explain/explain.hpp"
#include "scheduler/queue/shares.hpp"

namespace rtrain::core {

std::string ago(Duration duration);  // "12m", "2h11"
// The nodes that have no room for any bundle, by kind of reason.
void group_reasons(const Cluster& cluster, const Run& run, Time now, Explanation& answer);
// What its queue, its place in the order and reservations say of it.
std::vector<Rule> queue_rules(const Cluster& cluster, const Run& run, Time now, JobWords words);
// The cluster, or in `copy` a copy of it with an index that is in step.
const Cluster& with_index(const Cluster& cluster, Cluster& copy);
std::string text_of(const Held& held);  // "2 CPU and GPU 0"
// The quotas as a cycle sees them when it comes to this run.
Quotas quotas_for(const Cluster& cluster, const Run& run);
bool kept_out_by_quota(const Cluster& cluster, const Run& run);
std::string eta_text(const Cluster& cluster, const Attempt& attempt, Time now);  // "ETA 2h11", "ETA unknown"
// explain, of a run whose headline begins with `opening` instead of its state and since when.
Explanation explain_as(const Cluster& cluster, Time now, RunId run, const std::string& opening, JobWords words);

}  // namespace rtrain::core

// Parts of an explanation. Used inside of the scheduler's core only.
#pragma once

#include <string>
#include <vector>

#include "scheduler/explain/explain.hpp"
#include "scheduler/queue/shares.hpp"

namespace rtrain::core {

std::string ago(Duration duration);  // "12m", "2h11"
// Returns the nodes without room for any bundle, grouped by kind of reason.
void group_reasons(const Cluster& cluster, const Run& run, Time now, Explanation& answer);
// Returns the rules that keep the run waiting, as texts: its queue's quota, its place in the order, and reservations.
std::vector<Rule> queue_rules(const Cluster& cluster, const Run& run, Time now, JobWords words);
// Returns the cluster, or a copy of it in `copy` with an updated index.
const Cluster& with_index(const Cluster& cluster, Cluster& copy);
std::string text_of(const Held& held);  // "2 CPU and GPU 0"
// Returns the quotas as they are when a scheduling cycle considers this run.
Quotas quotas_for(const Cluster& cluster, const Run& run);
bool kept_out_by_quota(const Cluster& cluster, const Run& run);
std::string eta_text(const Cluster& cluster, const Attempt& attempt, Time now);  // "ETA 2h11", "ETA unknown"
// Explains a run. The headline begins with `opening` instead of the state and its age.
Explanation explain_as(const Cluster& cluster, Time now, RunId run, const std::string& opening, JobWords words);

}  // namespace rtrain::core

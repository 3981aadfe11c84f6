// Parts of an explanation. Inside of the core only.
#pragma once

#include <string>
#include <vector>

#include "scheduler/explain/explain.hpp"

namespace rtrain::core {

std::string ago(Duration duration);  // "12m", "2h11"
// The nodes that have no room for any bundle, by kind of reason.
void group_reasons(const Cluster& cluster, const Run& run, Time now, Explanation& answer);
// What its queue, its place in the order and reservations say of it.
std::vector<Rule> queue_rules(const Cluster& cluster, const Run& run, Time now, JobWords words);
bool kept_out_by_quota(const Cluster& cluster, const Run& run);
std::string eta_text(const Cluster& cluster, const Attempt& attempt, Time now);  // "ETA 2h11", "ETA unknown"
// explain, of a run whose headline begins with `opening` instead of its state and since when.
Explanation explain_as(const Cluster& cluster, Time now, RunId run, const std::string& opening, JobWords words);

}  // namespace rtrain::core

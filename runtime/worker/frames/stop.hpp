// A job's `stop`: metrics and the values at which the run ends. Rank 0's process, its agent and the head evaluate the
// same bytes in the same way.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace rtrain::worker {

// Returns the first metric of rank 0's report (JSON text) that has reached its value, with that value.
std::optional<std::pair<std::string, double>> reached_stop(const std::map<std::string, double>& stop_at,
                                                           const std::string& metrics_json);

}  // namespace rtrain::worker

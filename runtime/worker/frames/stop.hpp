// A job's `stop`: metrics and the values at which the run ends. Rank 0's process, its agent and the head ask the same
// question of the same bytes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace rtrain::worker {

// The first metric of rank 0's report (JSON text) that has reached its value, and what it was.
std::optional<std::pair<std::string, double>> reached_stop(const std::map<std::string, double>& stop_at,
                                                           const std::string& metrics_json);

}  // namespace rtrain::worker

// A job's `stop`: the report that ends the run. Head and agents ask the same question of the same bytes: the head ends
// the run, and the coordinator of its report group lets nobody pass a further report meanwhile.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace rtrain::protocol {

// The first metric of rank 0's report that has reached its value.
std::optional<std::pair<std::string, double>> reached_stop(const std::map<std::string, double>& stop_at,
                                                           const std::string& metrics_json);

}  // namespace rtrain::protocol

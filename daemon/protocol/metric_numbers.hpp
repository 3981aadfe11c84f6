// The numbers in a report's metrics, which are JSON text. Head and agents ask the same questions of the same bytes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace rtrain::protocol {

// The numbers of the first level, and `score` (`a/b`: a nested one; a key that is spelled so comes first), which is NaN
// where its value is not finite. By these checkpoints are ranked; the rest is in their manifests.
std::map<std::string, double> numbers_of(const std::string& metrics_json, const std::string& score);

// A job's `stop`: the first metric of rank 0's report that has reached its value. The head ends the run then, and the
// coordinator of its report group lets nobody pass a further report meanwhile.
std::optional<std::pair<std::string, double>> reached_stop(const std::map<std::string, double>& stop_at,
                                                           const std::string& metrics_json);

}  // namespace rtrain::protocol

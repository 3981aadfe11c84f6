// The numbers in a report's metrics, which are JSON text. Head and agents ask the same questions of the same bytes.
#pragma once

#include <map>
#include <string>

namespace rtrain::protocol {

// The numbers of the first level, and `score` (`a/b`: a nested one; a key that is spelled so comes first), which is NaN
// where its value is not finite. By these checkpoints are ranked; the rest is in their manifests.
std::map<std::string, double> numbers_of(const std::string& metrics_json, const std::string& score);

}  // namespace rtrain::protocol

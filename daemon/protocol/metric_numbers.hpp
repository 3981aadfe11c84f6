// Reads the numbers in a report's metrics, which are JSON text. Head and agents evaluate the same bytes in the same
// way.
#pragma once

#include <map>
#include <string>

namespace rtrain::protocol {

// Returns the numbers of the first level, and `score`, which is NaN if its value is not finite. (`a/b` names a nested
// value; a key that is spelled so has precedence.) Checkpoints are ranked by these; manifests contain all metrics.
std::map<std::string, double> numbers_of(const std::string& metrics_json, const std::string& score);

}  // namespace rtrain::protocol

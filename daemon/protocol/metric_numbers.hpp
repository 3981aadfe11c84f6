// Reads the numbers in a report's metrics, which are JSON text. Head and agents evaluate the same bytes in the same
// way.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace rtrain::protocol {

// The most numbers of a checkpoint beside its score. The head keeps them in memory and writes them with each event.
inline constexpr std::size_t checkpoint_numbers_most = 1'000;

// Returns the first numbers of the first level, and `score`, which is NaN if its value is not finite. (`a/b` names a
// nested value; a key that is spelled so has precedence.) Checkpoints are ranked by these; manifests contain all
// metrics. The text may have megabytes, and the head's loop calls this: no tree is made of it.
std::map<std::string, double> numbers_of(const std::string& metrics_json, const std::string& score);

}  // namespace rtrain::protocol

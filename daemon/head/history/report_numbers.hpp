// PURE: reads the numbers of rank 0 in a report without parsing the rest, since the metrics of thousands of ranks may
// follow.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rtrain::head {

// Returns names and numbers. `ranks_json` is MetricRow::ranks_json. A boolean becomes 1 or 0. Other types and nested
// values are left out.
std::vector<std::pair<std::string, double>> numbers_of_rank_0(const std::string& ranks_json);

}  // namespace rtrain::head

// PURE: the numbers of rank 0 in a report, without the rest of it being read: the metrics of thousands of ranks may lie
// behind them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rtrain::head {

// `ranks_json` as MetricRow has it. A truth value is 1 or 0; what is neither, or lies deeper, is left out.
std::vector<std::pair<std::string, double>> numbers_of_rank_0(const std::string& ranks_json);

}  // namespace rtrain::head

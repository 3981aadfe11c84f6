// Reports as people see them: of one rank, several, or all.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/head/base/number_ranges.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

// The ranks whose metrics a row shows. None: rank 0's, as "metrics"; one rank: its own; several: "metrics_by_rank".
struct RankChoice {
    bool all = false;
    NumberRanges ranks;
};
// Returns the row as JSON on one line, made of pieces of its text: a row may have megabytes. `key` names the only
// metric that is shown; empty: all.
std::string metric_text(const state::MetricRow& row, const RankChoice& choice, const std::string& key);
nlohmann::json metric_json(const state::MetricRow& row);  // with rank 0's metrics; for a short row
nlohmann::json metrics_of(const state::MetricRow& row);   // rank 0's metrics

}  // namespace rtrain::head

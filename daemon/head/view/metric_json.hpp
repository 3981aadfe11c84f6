// Reports as JSON: of one rank, several, or all.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/head/base/number_ranges.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

// The ranks whose metrics a row shows. No rank: rank 0's, as "metrics". One rank: its own. Several: "metrics_by_rank".
struct RankChoice {
    bool all = false;
    NumberRanges ranks;
};
// Returns the row as one line of JSON, made from pieces of its text, since a row may have megabytes. `key` is the only
// metric to show; empty: all.
std::string metric_text(const state::MetricRow& row, const RankChoice& choice, const std::string& key);
nlohmann::json metric_json(const state::MetricRow& row);  // with rank 0's metrics; for a short row
nlohmann::json metrics_of(const state::MetricRow& row);   // rank 0's metrics

}  // namespace rtrain::head

// Converts reports to JSON: the metrics of one rank, of several, or of all.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/head/base/number_ranges.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

// The ranks whose metrics a row shows. No rank: those of rank 0, as "metrics". One rank: its metrics, as "metrics".
// Several ranks: "metrics_by_rank".
struct RankChoice {
    bool all = false;
    NumberRanges ranks;
};
// Returns the row as one line of JSON. It is made from pieces of the stored text, since a row may have megabytes.
// `key`: the only metric to show; empty: all.
std::string metric_text(const state::MetricRow& row, const RankChoice& choice, const std::string& key);
nlohmann::json metric_json(const state::MetricRow& row);  // the row as JSON with rank 0's metrics; for short rows only
nlohmann::json metrics_of(const state::MetricRow& row);   // the metrics of rank 0 in the row

}  // namespace rtrain::head

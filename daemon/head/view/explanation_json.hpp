// Converts explanations and plans to JSON of the API. Each group of reasons has the line of the job's file that causes
// it, if that is known.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/head/view/view.hpp"
#include "scheduler/explain/explain.hpp"
#include "scheduler/plan.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

// key of the setting with the line numbers of the fields in the run's job file
std::string lines_setting(const std::string& submit_key);
nlohmann::json explanation_json(const View& view, const state::SqliteJournal& journal, const Run& run,
                                const Explanation& why);
// `lines`: line numbers of the fields in the job's file, {"file": "job.yaml", "at": {"queue": 4}}.
nlohmann::json plan_json(const Plan& plan, const std::string& queue, const nlohmann::json& lines,
                         const std::vector<std::string>& warnings);
nlohmann::json answer_json(const PlacementAnswer& answer);

}  // namespace rtrain::head

// Explanations and plans as JSON of the API. Groups name the line of the job file that causes them, if it is known.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/head/view/view.hpp"
#include "scheduler/explain/explain.hpp"
#include "scheduler/plan.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

std::string lines_setting(const std::string& submit_key);  // setting with the lines of the fields in its job file
nlohmann::json explanation_json(const View& view, const state::SqliteJournal& journal, const Run& run,
                                const Explanation& why);
// `lines`: the lines of the fields in its job file, {"file": "job.yaml", "at": {"queue": 4}}.
nlohmann::json plan_json(const Plan& plan, const std::string& queue, const nlohmann::json& lines,
                         const std::vector<std::string>& warnings);
nlohmann::json answer_json(const PlacementAnswer& answer);

}  // namespace rtrain::head

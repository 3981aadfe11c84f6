// Converts records to the JSON of docs/http-api.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/head/view/view.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

using nlohmann::json;

json time_json(const View& view, Time time);  // the time as text; null if the time is 0
json wall_json(std::int64_t wall);            // the wall time as text; null for 0
json resources_json(const Resources& resources);
std::string needs_text(const RunSpec& spec);  // resources that the run needs: "2 x {CPU: 1}"
json kind_json(const Reason& reason);         // kind of the reason; null if there is none

json run_json(const View& view, const Run& run, JobWords words);
json full_run_json(const View& view, const Run& run, JobWords words);  // the run with the member `job`
std::string result_json(const View& view, const Run& run);             // content of result.json for an ended run
json attempt_json(const View& view, const Attempt& attempt);           // the attempt without the member `workers`
json worker_json(const Attempt& attempt, std::uint32_t rank);
json checkpoint_json(const Run& run, const Checkpoint& checkpoint);
json event_json(const View& view, const state::EventRow& row);

}  // namespace rtrain::head

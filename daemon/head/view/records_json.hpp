// Records as people see them: the JSON of docs/http-api.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/head/view/view.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

using nlohmann::json;

json time_json(const View& view, Time time);  // null if the time has not come yet
json wall_json(std::int64_t wall);            // null for 0
json resources_json(const Resources& resources);
std::string needs_text(const RunSpec& spec);  // "2 x {CPU: 1}"
json kind_json(const Reason& reason);         // null without a reason

json run_json(const View& view, const Run& run, JobWords words);
json full_run_json(const View& view, const Run& run, JobWords words);  // with `job`
std::string result_json(const View& view, const Run& run);             // result.json of an ended run
json attempt_json(const View& view, const Attempt& attempt);           // without `workers`
json worker_json(const Attempt& attempt, std::uint32_t rank);
json checkpoint_json(const Run& run, const Checkpoint& checkpoint);
json event_json(const View& view, const state::EventRow& row);

}  // namespace rtrain::head

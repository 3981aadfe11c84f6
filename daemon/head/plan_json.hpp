// A plan as the API gives it: the placement answer, and what explain says of a run that waits.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "scheduler/plan.hpp"

namespace rtrain::head {

// `lines`: where the fields of its job file stand, {"file": "job.yaml", "at": {"queue": 4}}.
nlohmann::json plan_json(const Plan& plan, const std::string& queue, const nlohmann::json& lines);

}  // namespace rtrain::head

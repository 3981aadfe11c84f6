// What a job's processes print, where it stands within causes, reasons and events: the last words of a rank, the last
// lines of a setup. The run's user and admins read it; to everybody else it is "(hidden)".
#pragma once

#include <string>

#include "daemon/head/view_json.hpp"
#include "scheduler/explain/explain.hpp"

namespace rtrain::head {

// May this person read what the run prints?
bool reads_job_words(const Caller& caller, const Run& run);

// Returns `text` up to its first bracket or line end: a job's words stand behind one, and nowhere before.
std::string without_job_words(std::string text);

// Returns the attempt as far as `caller` may read it.
Attempt attempt_for(const Caller& caller, const Run& run, const Attempt& attempt);

// What run_json, explanation_json and event_json give, as far as `caller` may read it.
json run_for(const Head& head, const Caller& caller, const Run& run);
json explanation_for(const Head& head, const Caller& caller, const Run& run, const Explanation& why);
json line_for(const Head& head, const Caller& caller, const Run& run, const std::string& line);  // of an explanation
json event_for(const Head& head, const Caller& caller, const state::EventRow& row);

}  // namespace rtrain::head

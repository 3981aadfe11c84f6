// The output of a job's processes within causes, reasons and events: the last lines of a rank or of a setup. The run's
// user and admins see it; others see "(hidden)".
#pragma once

#include <string>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/view/records_json.hpp"
#include "scheduler/explain/explain.hpp"

namespace rtrain::head {

// Returns true if the caller may read the run's output.
bool reads_job_words(const Caller& caller, const Run& run);

// Returns whether the caller sees the job's own words in reasons and causes.
JobWords words_for(const Caller& caller, const Run& run);

// Returns the attempt without the texts that `caller` may not read.
Attempt attempt_for(const Caller& caller, const Run& run, const Attempt& attempt);

// Returns event_json without the texts that `caller` may not read. In an event's line, a job's own text is always
// behind the first bracket or line end.
json event_for(const View& view, const Caller& caller, const state::EventRow& row);

}  // namespace rtrain::head

// The output of a job's processes within causes, reasons and events: the last lines of a rank or of a setup. The run's
// user and admins see it; others see "(hidden)".
#pragma once

#include <string>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/view/records_json.hpp"
#include "scheduler/explain/explain.hpp"

namespace rtrain::head {

// Returns true if this person may read the run's output.
bool reads_job_words(const Caller& caller, const Run& run);

// Returns the part of these texts that this person sees.
JobWords words_for(const Caller& caller, const Run& run);

// Returns the attempt as far as `caller` may read it.
Attempt attempt_for(const Caller& caller, const Run& run, const Attempt& attempt);

// Returns event_json with the parts that `caller` may read. A job's text can only come after the first bracket or line
// end of an event's line.
json event_for(const View& view, const Caller& caller, const state::EventRow& row);

}  // namespace rtrain::head

// What a job's processes print, where it stands within causes, reasons and events: the last words of a rank, the last
// lines of a setup. The run's user and admins read it; to everybody else it is "(hidden)".
#pragma once

#include <string>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/view/records_json.hpp"
#include "scheduler/explain/explain.hpp"

namespace rtrain::head {

// Returns whether this person may read what the run prints.
bool reads_job_words(const Caller& caller, const Run& run);

// What of them this person is shown.
JobWords words_for(const Caller& caller, const Run& run);

// Returns the attempt as far as `caller` may read it.
Attempt attempt_for(const Caller& caller, const Run& run, const Attempt& attempt);

// What event_json gives, as far as `caller` may read it. The line of an event is kept as text: behind its first bracket
// or line end a job's words may stand, and nowhere before.
json event_for(const View& view, const Caller& caller, const state::EventRow& row);

}  // namespace rtrain::head

#include "daemon/head/requests/job_output.hpp"

namespace rtrain::head {

bool reads_job_words(const Caller& caller, const Run& run) {
    return is_admin(caller) || (caller.role == Role::user && caller.user == run.user);
}

JobWords words_for(const Caller& caller, const Run& run) {
    return reads_job_words(caller, run) ? JobWords::shown : JobWords::hidden;
}

Attempt attempt_for(const Caller& caller, const Run& run, const Attempt& attempt) {
    Attempt seen = attempt;
    if (reads_job_words(caller, run)) return seen;
    seen.cause = without_job_words(std::move(seen.cause));
    for (Worker& worker : seen.workers)
        if (worker.exit) worker.exit->detail.clear();
    return seen;
}

// Returns an event as JSON. If the event's run was removed, only admins see the job's own text in it, since the run's
// user is unknown.
json event_for(const View& view, const Caller& caller, const state::EventRow& row) {
    json out = event_json(view, row);
    if (!row.about_run || is_admin(caller)) return out;
    const auto run = view.cluster.runs.find(*row.about_run);
    if (run == view.cluster.runs.end() || !reads_job_words(caller, run->second)) {
        out["text"] = without_output(row.note);
    }
    return out;
}

}  // namespace rtrain::head

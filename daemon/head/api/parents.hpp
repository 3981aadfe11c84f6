// Runs that workers of other runs have submitted with RTRAIN_TOKEN, such as a driver on a node. Such a run is stopped
// together with its parent.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "daemon/head/files/submissions.hpp"
#include "daemon/head/requests/exchange.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::head {

// How a submission with `yields` belongs to its owner (Run::yielding).
struct Helper {
    Yielding yielding = Yielding::never;
    RunId parent{};  // 0: a session owns it
};
// Reads `yields`, checks it, and gives the job its owner's queue. `program`: see submitting_program.
Helper read_helper(const Exchange& exchange, const nlohmann::json& body, const std::string& program, spec::Job& job,
                   Problems& problems);
// Adds the owner's values of those secrets that the job names and the request leaves out.
void add_secrets_of_owner(const Exchange& exchange, const Submissions& submissions, const spec::Job& job,
                          nlohmann::json& body);

// Sets the job's label `rtrain.parent` to the run whose worker sends the request. Fails if that run is ending.
Status mark_parent(const Exchange& exchange, spec::Job& job);
// Returns the program that a submission of this caller belongs to (Run::program): the program of the run whose token
// authenticates the request, otherwise the caller's session with the name `session`. Empty: no program.
std::string submitting_program(const Exchange& exchange, const std::string& session);
// Returns the id of the run whose worker has submitted this one; empty if no worker has.
std::string parent_of(const Run& run);
// Returns the live runs that workers of this run have submitted, directly or through other runs.
std::vector<RunId> submitted_below(const View& view, RunId parent);

}  // namespace rtrain::head

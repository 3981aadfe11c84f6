// Runs that workers of other runs have submitted, by RTRAIN_TOKEN: a driver on a node, say. They are stopped with them.
#pragma once

#include <string>
#include <vector>

#include "daemon/head/requests/exchange.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::head {

// Writes the id of the run whose worker asks into the job's label `rtrain.parent`; refuses when that run is ending.
Status mark_parent(const Exchange& exchange, spec::Job& job);
// Returns the program that a submission of this caller belongs to (Run::program), from what the head has authenticated:
// the program of the run whose token is shown, or else the caller's own session of the name `session`. Empty: it
// belongs to none.
std::string submitting_program(const Exchange& exchange, const std::string& session);
// Returns the id of the run whose worker has submitted this one; empty: nobody's worker has.
std::string parent_of(const Run& run);
// The live runs that workers of this one have submitted, and those that theirs have.
std::vector<RunId> submitted_below(const View& view, RunId parent);

}  // namespace rtrain::head

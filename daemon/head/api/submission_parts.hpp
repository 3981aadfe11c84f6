// Parts of a submission that depend on the head's records: predecessors by name, job arrays, nodes by name.
#pragma once

#include <string>
#include <vector>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::head {

struct JobArray {
    std::vector<std::uint32_t> indices;  // indices of the array's runs; empty: no array
    std::uint32_t parallel = 0;          // the most runs at a time; 0: any number
};
Result<JobArray> parse_array(const std::string& text);  // parses "1-8", "1,3,5-7" or "1-8%2"
struct ArrayMember {                                    // the place of a resumed run in its job array
    std::string array;                                  // name of the array; empty: the run is in none
    std::uint32_t index = 0;
};
ArrayMember array_member(const json& member, Problems& problems);  // reads {"array": NAME, "index": N}

Result<std::vector<After>> predecessors(const View& view, const std::vector<std::string>& after);
// one warning for each name of a node that the cluster does not have
std::vector<std::string> unknown_nodes(const Cluster& cluster, const spec::Job& job);

// Returns the number of runs of the user's job arrays that have not been made yet.
std::size_t unmade_runs_of(const Cluster& cluster, const std::string& user);

// Answers with the run. For an array, answers with the first run, and lists all members once all are made. `tokens`: if
// set, the answer also contains RTRAIN_CHANNEL, the credentials of the run's own connections.
void reply_submitted(Exchange& exchange, int status, RunId first, const TokenBook* tokens);

}  // namespace rtrain::head

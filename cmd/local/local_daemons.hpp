// The daemons of `rtrain up` in their directory: the head in head/, agents in node-1/, node-2/, ...
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "cmd/text/process.hpp"

namespace rtrain::cmd {

// Daemons that run, by their name: "head", "node-1". A daemon whose supervisor waits to start it again runs too.
using RunningDaemons = std::map<std::string, Running>;
RunningDaemons running_daemons(const std::string& base);

// Returns the nodes of a cluster that has at least node-1 to node-COUNT: those and the ones that run.
std::set<std::string> nodes_of_cluster(std::int64_t count, const RunningDaemons& running);

// Returns the address at which the agents that run expect their head, or at which it listens. Empty: none runs.
std::string head_address(const RunningDaemons& running);

// Ends all daemons below `base` except those in `kept`. Returns a list of {"name", "pid", "killed"}.
Result<nlohmann::json> end_daemons(const std::string& base, const RunningDaemons& kept);

}  // namespace rtrain::cmd

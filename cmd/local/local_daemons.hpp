// The daemons of `rtrain up` in their directory: the head in head/, agents in node-1/, node-2/, ...
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "cmd/text/process.hpp"

namespace rtrain::cmd {

// The running daemons by name: "head", "node-1". A daemon counts as running while its supervisor waits to start it
// again.
using RunningDaemons = std::map<std::string, Running>;
RunningDaemons running_daemons(const std::string& base);

// Returns the names of the cluster's nodes: node-1 to node-COUNT, and the other nodes that run.
std::set<std::string> nodes_of_cluster(std::int64_t count, const RunningDaemons& running);

// Returns the address at which the running agents expect their head, or at which a running head listens. Returns an
// empty text if no daemon runs.
std::string head_address(const RunningDaemons& running);

// Ends all daemons below `base` except those in `kept`. Returns a list of {"name", "pid", "killed"}.
Result<nlohmann::json> end_daemons(const std::string& base, const RunningDaemons& kept);

}  // namespace rtrain::cmd

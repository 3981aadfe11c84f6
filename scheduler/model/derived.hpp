// Values that are derived from one record: the size of a run, its requests, the nodes of an attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/model/records.hpp"

namespace rtrain {

// True if the node is out of use only because it has not registered since the head's start.
bool is_awaited(const Node& node);
// Returns the state that placement uses: an awaited node takes no new bundle, as if it were draining.
NodeState state_for_placement(const Node& node);
// Returns the state for people. An awaited node in use counts as lost until it registers: it may no longer exist.
NodeState shown_state(const Node& node);

// ---- of a run -----------------------------------------------------------------------------------------------------
// the least and the most workers of the run; equal for a run of a fixed size
std::uint32_t workers_min(const Run& run);
std::uint32_t workers_max(const Run& run);
// returns the first `workers` bundles of the spec as a gang
GangRequest gang_of(const RunSpec& spec, std::uint32_t workers);
// returns the first `workers` bundles of the run's spec as a gang; with the run's user if a bundle has no resources
GangRequest gang_of(const Run& run, std::uint32_t workers);
// returns the smallest gang that the run may have, with the nodes that the run avoids
GangRequest request_of(const Run& run);
const Resources& demand_of(const Run& run, std::size_t rank);
Sums demand_of(const Run& run);  // sum of the demands of the smallest gang that the run may have

std::string program_of(const Run& run);  // "run-17": the driver's run; "session-...": a driver outside of the cluster
void drop_reservation(Run& run);
bool yields(const Run& run);     // true if it ends now for any run that does not yield
bool may_yield(const Run& run);  // true if it belongs to an owner, with which it ends

namespace core {

bool is_blocked(const Run& run);                    // true if the run waits for predecessors or for its job array
std::optional<Time> wall_time_end(const Run& run);  // nullopt: no limit, or the run has not begun

// ---- of an attempt ------------------------------------------------------------------------------------------------
std::vector<NodeId> nodes_of(const Attempt& attempt);  // the nodes of the attempt's workers, by rank
bool on_node(const Attempt& attempt, const NodeId& node);
bool claimed(const Attempt& attempt);          // true if the attempt's number is claimed on storage
bool port_was_taken(const Attempt& attempt);   // true if this was the attempt's first failure
bool request_pending(const Attempt& attempt);  // true if a checkpoint was requested and is not committed yet

}  // namespace core
}  // namespace rtrain

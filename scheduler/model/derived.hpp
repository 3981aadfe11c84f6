// Values that follow from one record: the size of a run, what it asks for, the nodes of an attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/model/records.hpp"

namespace rtrain {

// ---- of a run -----------------------------------------------------------------------------------------------------
std::uint32_t workers_min(const Run& run);  // both are equal for a run of a fixed size
std::uint32_t workers_max(const Run& run);
GangRequest gang_of(const RunSpec& spec, std::uint32_t workers);  // the first `workers` bundles of the spec
GangRequest gang_of(const Run& run, std::uint32_t workers);       // with the run's user, if a bundle is zero
GangRequest request_of(const Run& run);  // the smallest gang that it may have, with the nodes that it avoids
const Resources& demand_of(const Run& run, std::size_t rank);
Sums demand_of(const Run& run);  // of the smallest gang that it may have

std::string program_of(const Run& run);  // "run-17": the driver's run; "session-...": a driver outside of the cluster
void drop_reservation(Run& run);

namespace core {

bool is_blocked(const Run& run);                    // by runs before it, or by its job array
std::optional<Time> wall_time_end(const Run& run);  // none: no limit, or not begun

// ---- of an attempt ------------------------------------------------------------------------------------------------
std::vector<NodeId> nodes_of(const Attempt& attempt);  // by rank, rank 0's first
bool on_node(const Attempt& attempt, const NodeId& node);
bool claimed(const Attempt& attempt);          // its number is claimed on storage
bool port_was_taken(const Attempt& attempt);   // its first failure
bool request_pending(const Attempt& attempt);  // a checkpoint was asked for, and has not come

}  // namespace core
}  // namespace rtrain

// Answers questions about the reservations in force, for the scheduling cycle. Used inside of the scheduler's core
// only.
#pragma once

#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain::core {

// true if some node could be used by both shapes
bool same_kind(const ClusterIndex& index, std::uint32_t a, std::uint32_t b);
// Returns the names of the resources that are not free yet on the reserved seats of the run `reserving`. `demand` is
// the demand of that run. Returns an empty list if the reservation holds whole nodes, as those of earlier versions do.
std::vector<std::string> lacking(const ClusterIndex& index, RunId reserving, const Sums& demand);
// Returns true if so much was given back that a gang of demand `total` might start sooner. It must be a quarter of each
// demanded amount (limits::looks_for_a_part_of), so that not every small run that ends causes a search.
bool worth_a_look(const Sums& given_back, const Sums& total);
// Returns true if the run's reserved seats will be free when its reservation begins: their nodes are ready, and no
// other run has taken any of the seats. The second function checks only the seats on `node`.
bool will_be_free(const ClusterIndex& index, const Run& run);
bool will_be_free(const ClusterIndex& index, const Run& run, const NodeId& node);
// Returns true if the run's reserved time is now, and each attempt that the reservation waits for is expected to have
// ended by now.
bool begins_now(const Cluster& cluster, const Run& run, Time now);
// Returns true if the run's reserved seats will be free at their time even if the attempt `goes_on` does not end.
bool free_without(const ClusterIndex& index, const Run& run, AttemptId goes_on);
// Returns true if the run's reserved seats are free now for `gang`. Seats of the reservations in `closed` count as
// taken.
bool are_free(const ClusterIndex& index, const Run& run, const GangRequest& gang, ReservationMask closed);

}  // namespace rtrain::core

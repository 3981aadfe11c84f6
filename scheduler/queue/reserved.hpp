// Questions to reservations that are in force, for the scheduling cycle. Inside of the core only.
#pragma once

#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain::core {

bool same_kind(const ClusterIndex& index, std::uint32_t a, std::uint32_t b);  // shapes that could use one of the nodes
// The resources of which seats of the run's reservation are not free now; of its demand. Empty as well where a
// reservation of an earlier version holds whole nodes.
std::vector<std::string> lacking(const ClusterIndex& index, RunId reserving, const Sums& demand);
// Has enough been given back that a gang could begin sooner? Not for every small run that ends.
bool worth_a_look(const Sums& given_back, const Sums& total);
// True if the reserved seats will be free when the reservation begins: their nodes are ready, and no other run has
// taken of them. With a node: those there.
bool will_be_free(const ClusterIndex& index, const Run& run);
bool will_be_free(const ClusterIndex& index, const Run& run, const NodeId& node);
// True if the reservation begins as soon as attempts have ended whose end is due now.
bool begins_now(const Cluster& cluster, const Run& run, Time now);
// True if they will be free even if the attempt goes on.
bool free_without(const ClusterIndex& index, const Run& run, AttemptId goes_on);
// True if they are free now, beside the closed reservations.
bool are_free(const ClusterIndex& index, const Run& run, const GangRequest& gang, ReservationMask closed);

}  // namespace rtrain::core

// The whole state of a cluster: its records, and the index that follows from them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/cluster_index.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain {

struct Cluster {
    Meta meta;
    std::map<NodeId, Node> nodes;
    std::map<RunId, Run> runs;
    std::map<AttemptId, Attempt> attempts;
    std::map<CheckpointKey, Checkpoint> checkpoints;
    Queues queues;
    std::map<std::string, QueueUse> use;  // of configured queues
    ClusterIndex index;                   // follows from the records
    bool operator==(const Cluster&) const = default;
};

// clang-format off: one a line where they fit
const Checkpoint* latest_checkpoint(const Cluster& cluster, RunId run);  // the newest commit that is not being deleted; null: none
NodeId deletes_for(const Cluster& cluster, const Run& run);  // whom to have a checkpoint removed by; empty: nobody is ready
std::vector<NodeView> node_views(const Cluster& cluster);     // free amounts, from attempts that hold bundles

namespace core {

const Attempt* live_attempt(const Cluster& cluster, RunId run);  // null: none
// The attempt an agent means. A claim may have moved it to a higher number than the agent was asked for: numbers that
// a claim skipped have no record, so the next recorded number is the one.
const Attempt* meant_attempt(const Cluster& cluster, AttemptId id);
bool waits_for_others(const Cluster& cluster, const Run& run);  // it had to leave its seats, and has no others yet
std::vector<AttemptId> live_on(const Cluster& cluster, const NodeId& node);
std::string name_of(const Cluster& cluster, RunId run);
std::optional<Time> limit_of(const Cluster& cluster, const Run& run);  // when limits.* ends it; none: none counts now
Sums allocated_to(const Cluster& cluster, const Attempt& attempt);
// ends.cpp: when an attempt is expected to end, from limits.wall_time or from the pace at which its checkpoints near
// `stop`; none: nobody knows. One that has not started is taken to start now.
std::optional<Time> expected_end(const Cluster& cluster, const Attempt& attempt, Time now);
// The same as far as it follows from the records alone: one that has not started is taken to have started at its placing,
// and one that stops to have ended.
std::optional<Time> known_end(const Cluster& cluster, const Attempt& attempt);
ReservedSeats reserved_seats_of(const Run& run);  // as its record says
// The programs whose runs, of unknown end, the reservation waits for.
std::set<std::string> programs_awaited(const Cluster& cluster, const Run& waiting);
std::vector<const Checkpoint*> retained_checkpoints(const Cluster& cluster, RunId run);  // those that are not being deleted
bool newer(const Checkpoint& a, const Checkpoint& b);

}  // namespace core
}  // namespace rtrain

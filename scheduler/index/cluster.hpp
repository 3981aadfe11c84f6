// The whole state of a cluster: its records, and the index that is derived from them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/budgets.hpp"
#include "scheduler/index/cluster_index.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain {

struct Cluster {
    Meta meta;
    std::map<NodeId, Node> nodes;
    std::map<RunId, Run> runs;
    std::map<AttemptId, Attempt> attempts;
    std::map<CheckpointKey, Checkpoint> checkpoints;
    std::map<RunId, PendingArray> arrays;  // key: the array's first run
    Queues queues;
    std::map<std::string, QueueUse> use;     // key: the name of a configured queue
    std::map<QueueUser, BudgetUse> budgets;  // key: a queue with a budget, and a user
    ClusterIndex index;                      // derived from the records
    SpentBudgets spent;                      // derived from the records and the time
    bool operator==(const Cluster&) const = default;
};

// clang-format off: one a line where they fit
// Returns the newest commit that is not being deleted; null if there is none.
const Checkpoint* latest_checkpoint(const Cluster& cluster, RunId run);
std::string array_member(const std::string& array, std::uint32_t index);  // the name of a run of the array
// true if a pending array is to give a run this name
bool is_promised(const Cluster& cluster, const std::string& name);
// Returns a ready node whose agent can delete a checkpoint of the run; empty if there is none.
NodeId deletes_for(const Cluster& cluster, const Run& run);
// Returns the nodes with their free amounts, computed from the attempts that hold bundles.
std::vector<NodeView> node_views(const Cluster& cluster);

namespace core {

// the run's attempt that has not ended; null if there is none
const Attempt* live_attempt(const Cluster& cluster, RunId run);
// Returns the attempt that an agent's message is about. A claim may have given the attempt a higher number than the one
// that the agent was sent. Numbers that a claim skipped have no record, so the next recorded number is meant.
const Attempt* meant_attempt(const Cluster& cluster, AttemptId id);
// true if the run has lost the seats of its attempt and waits for new ones
bool waits_for_others(const Cluster& cluster, const Run& run);
// Returns how long the run may still take by its limits if it starts now; nullopt if no limit applies.
std::optional<Duration> time_left(const Cluster& cluster, const Run& waiting, Time now);
std::vector<AttemptId> live_on(const Cluster& cluster, const NodeId& node);
std::string name_of(const Cluster& cluster, RunId run);
// Returns when a limit of the job spec (`limits.*`) ends the run. Returns nullopt if no limit applies now.
std::optional<Time> limit_of(const Cluster& cluster, const Run& run);
Sums allocated_to(const Cluster& cluster, const Attempt& attempt);
// ends.cpp: Returns when the attempt is expected to end, from `limits.wall_time` or from the pace of its checkpoints
// towards `stop`. Returns nullopt if the end is unknown. An attempt that has not started is assumed to start now, and a
// yielding one to be stopped now.
std::optional<Time> expected_end(const Cluster& cluster, const Attempt& attempt, Time now);
// Returns the expected end as far as the records alone determine it, without the present time. An attempt that has not
// started is assumed to have started when it was placed, and a stopping attempt to have ended.
std::optional<Time> known_end(const Cluster& cluster, const Attempt& attempt);
ReservedSeats reserved_seats_of(const Run& run);  // the seats of the run's reservation, as stored in its record
// Returns the programs whose runs the reservation waits for, as far as the ends of these runs are unknown.
std::set<std::string> programs_awaited(const Cluster& cluster, const Run& waiting);
// the run's checkpoints, without those that are being deleted
std::vector<const Checkpoint*> retained_checkpoints(const Cluster& cluster, RunId run);
bool newer(const Checkpoint& a, const Checkpoint& b);

}  // namespace core
}  // namespace rtrain

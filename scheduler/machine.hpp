// The parts of `decide`, one function per event and the steps that they share. Inside of the core only.
#pragma once

#include <string>
#include <vector>

#include "scheduler/change.hpp"

namespace rtrain::core {

// ---- what is there (attempts.cpp) ---------------------------------------------------------------------------------
const Attempt* live_attempt(const Cluster& cluster, RunId run);  // null: none
// The attempt an agent means. A claim may have moved it to a higher number than the agent was asked for: numbers that
// a claim skipped have no record, so the next recorded number is the one.
const Attempt* meant_attempt(const Cluster& cluster, AttemptId asked);
std::vector<NodeId> nodes_of(const Attempt& attempt);  // by rank, rank 0's first
bool port_was_taken(const Attempt& attempt);           // its first failure
bool claimed(const Attempt& attempt);
bool on_node(const Attempt& attempt, const NodeId& node);
std::vector<AttemptId> live_on(const Cluster& cluster, const NodeId& node);
std::string name_of(const Cluster& cluster, RunId run);

// ---- steps of an attempt's life (attempts.cpp) ---------------------------------------------------------------------
void place_attempt(Change& change, RunId run, const Seats& seats);
void prepare_node(Change& change, const Attempt& attempt, const NodeId& node);
void stop_on_node(Change& change, const Attempt& attempt, const NodeId& node, const std::string& why);
void begin_stop(Change& change, AttemptId id, AttemptState end_as, const std::string& cause);
enum class Counts { yes, no };  // against max_failures
void fail_attempt(Change& change, AttemptId id, AttemptState end_as, const std::string& cause, Counts counts);
void node_is_empty(Change& change, AttemptId id, const NodeId& node);  // of a stopping attempt
void end_run(Change& change, RunId id, RunState state, const std::string& reason);
void avoid(Change& change, RunId run, const NodeId& node);

// ---- one per event ------------------------------------------------------------------------------------------------
void on(Change& change, const HeadStarted& event);  // runs.cpp
void on(Change& change, const RunSubmitted& event);
void on(Change& change, const RunStopAsked& event);
void on(Change& change, const RunRemoved& event);
void on(Change& change, const StopMetricReached& event);
void on(Change& change, const TimePassed& event);
void on(Change& change, const QueuesConfigured& event);
void on(Change& change, const NodeRegistered& event);  // nodes.cpp
void on(Change& change, const NodeLost& event);
void on(Change& change, const NodeLeft& event);
void on(Change& change, const NodeDrained& event);
void on(Change& change, const NodeUndrained& event);
void on(Change& change, const NodePrepared& event);  // workers.cpp
void on(Change& change, const NodePrepareFailed& event);
void on(Change& change, const WorkerStarted& event);
void on(Change& change, const FirstReport& event);
void on(Change& change, const WorkerExited& event);
void on(Change& change, const NodeEmptied& event);
void on(Change& change, const CheckpointCommitted& event);  // checkpoints.cpp
void on(Change& change, const CheckpointDeleted& event);

// ---- checkpoints.cpp ----------------------------------------------------------------------------------------------
void retain(Change& change, RunId run);                     // decides which checkpoints go
void repeat_deletions(Change& change, const NodeId& node);  // those this node is to carry out

// ---- queue.cpp ----------------------------------------------------------------------------------------------------
void place_waiting(Change& change);
bool could_use(const NodeView& node, const GangRequest& gang);  // any bundle of it, were the node empty

}  // namespace rtrain::core

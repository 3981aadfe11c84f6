// The core: one event in, what to save and what to do out. Reads no clock, socket, file or random device.
//
//   event ─► decide(cluster, now, event) ─► Decision{save, act}
//
// The shell makes `save` durable together with the event in one transaction, then performs `act` in order. Results of
// effects come back as events. An event about an attempt that is over changes nothing.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/ledger.hpp"
#include "scheduler/records.hpp"

namespace rtrain {

struct Cluster {
    Meta meta;
    std::map<NodeId, Node> nodes;
    std::map<RunId, Run> runs;
    std::map<AttemptId, Attempt> attempts;
    std::map<CheckpointKey, Checkpoint> checkpoints;
    Queues queues;
    std::map<std::string, QueueUse> use;  // of configured queues
    Ledger ledger;                        // follows from the records
    bool operator==(const Cluster&) const = default;
};

// clang-format off: events and effects, one a line where they fit
struct HeadStarted { std::int64_t wall_ms = 0; bool operator==(const HeadStarted&) const = default; };
struct RunSubmitted {  // the shell has checked the spec, the user and the name's form
    std::string name, user, submit_key, job_json, storage_path;
    RunSpec spec;
    bool resume = false;
    std::string restore_from;
    std::vector<std::string> warnings;
    std::int64_t wall_ms = 0;
    bool operator==(const RunSubmitted&) const = default;
};
struct RunStopAsked { RunId run; std::string by; std::int64_t wall_ms = 0; bool operator==(const RunStopAsked&) const = default; };
struct RunRemoved { RunId run; bool operator==(const RunRemoved&) const = default; };  // only a terminal one
struct NodeRegistered {  // also on every reconnect: `held` is the whole truth about that node's processes
    NodeId node;
    std::string address;
    std::uint16_t port = 0;
    Labels labels;
    Resources total;  // without GPU
    std::uint32_t gpus = 0;
    std::vector<AttemptId> held;  // attempts this agent has processes or unfinished preparation of
    bool operator==(const NodeRegistered&) const = default;
};
struct NodeLost { NodeId node; std::string why; bool operator==(const NodeLost&) const = default; };  // silent for node_timeout
struct NodeLeft { NodeId node; bool operator==(const NodeLeft&) const = default; };                   // `node leave`
struct NodeDrained { NodeId node; std::string by, reason; bool operator==(const NodeDrained&) const = default; };
struct NodeUndrained { NodeId node; bool operator==(const NodeUndrained&) const = default; };
// A node is ready for the attempt: code unpacked, storage probed, peers reached. From rank 0's node also the claim.
struct NodePrepared {
    AttemptId attempt;  // as asked for
    std::uint32_t incarnation = 0;
    NodeId node;
    std::uint32_t claimed_number = 0;  // rank 0's node: the number it claimed on storage (>= asked); else 0
    std::string from;                  // rank 0's node: the newest committed checkpoint on the live branch
    std::string master_address;        // rank 0's node
    std::uint16_t master_port = 0;     // rank 0's node
    bool operator==(const NodePrepared&) const = default;
};
struct NodePrepareFailed {
    AttemptId attempt;
    std::uint32_t incarnation = 0;
    NodeId node;
    std::string why;
    bool permanent = false;  // the user must change something (no such storage, name taken, code damaged): not retried
    bool operator==(const NodePrepareFailed&) const = default;
};
struct WorkerStarted { AttemptId attempt; Rank rank; std::int64_t pid = 0; bool operator==(const WorkerStarted&) const = default; };
struct FirstReport { AttemptId attempt; bool operator==(const FirstReport&) const = default; };  // of an attempt
struct WorkerExited {
    AttemptId attempt;
    Rank rank;
    ExitCause cause;
    std::int64_t exit_wall_us = 0;
    bool operator==(const WorkerExited&) const = default;
};
struct NodeEmptied { AttemptId attempt; NodeId node; bool operator==(const NodeEmptied&) const = default; };  // no process left
struct CheckpointCommitted {
    AttemptId attempt;
    std::string directory;
    std::uint32_t world_size = 0;
    std::int64_t bytes = 0;
    std::map<std::string, double> metrics;
    std::int64_t wall_ms = 0;
    bool operator==(const CheckpointCommitted&) const = default;
};
struct CheckpointDeleted { RunId run; std::string directory; bool operator==(const CheckpointDeleted&) const = default; };
struct StopMetricReached { AttemptId attempt; std::string key; double value = 0; bool operator==(const StopMetricReached&) const = default; };
struct QueuesConfigured { Queues queues; std::string by; bool operator==(const QueuesConfigured&) const = default; };  // checked by the shell
struct TimePassed { bool operator==(const TimePassed&) const = default; };  // next_wake has come

using Event = std::variant<HeadStarted, RunSubmitted, RunStopAsked, RunRemoved, NodeRegistered, NodeLost, NodeLeft, NodeDrained,
                           NodeUndrained, NodePrepared, NodePrepareFailed, WorkerStarted, FirstReport, WorkerExited, NodeEmptied,
                           CheckpointCommitted, CheckpointDeleted, StopMetricReached, TimePassed, QueuesConfigured>;

// ---- effects ------------------------------------------------------------------------------------------------------
// To one agent each. Repeating one is harmless: agents know attempts by id and incarnation.
struct PrepareNode {  // to every node of a new attempt; `claim` on rank 0's node
    AttemptId attempt;
    std::uint32_t incarnation = 0;
    NodeId node;
    bool claim = false;
    bool operator==(const PrepareNode&) const = default;
};
struct LaunchWorkers {  // every node is prepared: start this node's workers (all facts are in the Attempt record)
    AttemptId attempt;
    NodeId node;
    bool operator==(const LaunchWorkers&) const = default;
};
struct StopAttempt {  // end everything of this attempt on this node, answer NodeEmptied; also for attempts given up long ago
    AttemptId attempt;
    std::uint32_t incarnation = 0;  // the attempt's; 0 where the head has no record of it any more
    NodeId node;
    Duration grace;
    std::string why;
    bool operator==(const StopAttempt&) const = default;
};
struct DeleteCheckpoint {
    RunId run;
    std::string directory;
    NodeId node;  // who carries it out: a ready node of the run's last attempt, else any ready node
    bool operator==(const DeleteCheckpoint&) const = default;
};
struct WriteResult {  // terminal: result.json beside the run, logs copied; by a node that was in it (or the head for cluster://)
    RunId run;
    NodeId node;
    bool operator==(const WriteResult&) const = default;
};
using Effect = std::variant<PrepareNode, LaunchWorkers, StopAttempt, DeleteCheckpoint, WriteResult>;

struct Decision {
    std::vector<Record> save;
    std::vector<Effect> act;
    std::string note;                // one line for `rtrain events`; empty: not worth showing
    std::optional<RunId> about_run;  // what the note is about
    std::optional<NodeId> about_node;
    std::optional<RunId> created;         // RunSubmitted: the new run, or the one its key made before
    std::optional<Error> refused;         // a request that cannot be: nothing is saved (name taken, run not terminal, ...)
    bool operator==(const Decision&) const = default;
};

Decision decide(Cluster& cluster, Time now, const Event& event);
std::optional<Time> next_wake(const Cluster& cluster);  // when TimePassed is due; none: nothing waits for time

void apply(Cluster& cluster, const Record& record);      // opening from disk: records only
std::vector<std::string> invariants(const Cluster& cluster);  // what does not hold (design 11), empty when all is well
const Checkpoint* latest_checkpoint(const Cluster& cluster, RunId run);  // the newest commit that is not being deleted; null: none
std::vector<NodeView> node_views(const Cluster& cluster);     // free amounts, from attempts that hold bundles

// ---- for people ---------------------------------------------------------------------------------------------------
struct QueuePosition { std::uint32_t position = 0, length = 0; bool operator==(const QueuePosition&) const = default; };
std::vector<RunId> queue_order(const Cluster& cluster);  // waiting runs: priority, then fair share, then age
struct Holder {  // what an attempt holds of one node, and until when as far as that is known
    NodeId node;
    AttemptId attempt;
    std::string text;  // "n1: 8 GPU by gpt-1b (attempt 2), ETA 2h11"
    std::optional<Duration> eta;
};
struct Explanation {
    std::string headline;  // QUEUED 12m, position 1 of 2 in queue "default". Needs 4 nodes x 8 GPU, all at once.
    std::optional<QueuePosition> queue;
    std::vector<std::string> rules;            // of its queue: quota, order, reservation, why it may not start yet
    std::optional<PlacementAnswer> placement;  // for a waiting run
    std::vector<std::string> groups;           // reasons grouped: "5  GPUs busy      n1-n3 by gpt-1b (ETA 2h11)"
    std::vector<Holder> held;                  // by others, on nodes that could help
    std::vector<std::string> holders;          // their texts
};
Explanation explain(const Cluster& cluster, Time now, RunId run);

}  // namespace rtrain

// What the core hears (events) and what it wants done (effects): closed sets of plain values.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/model/records.hpp"

namespace rtrain {

// clang-format off: events and effects, one a line where they fit
struct HeadStarted {
    std::int64_t wall_ms = 0;
    std::optional<QuarantinePolicy> quarantine;  // none: as before
    bool operator==(const HeadStarted&) const = default;
};
struct RunSubmitted {  // the shell has checked the spec, the user and the name's form
    std::string name, user, submit_key, job_json, storage_path;
    RunSpec spec;
    bool resume = false;
    std::string restore_from;
    std::vector<std::string> warnings;
    std::int64_t wall_ms = 0;
    std::vector<std::uint32_t> array;  // a run for each, called NAME-<index>, all or none
    std::uint32_t array_parallel = 0;  // of these so many at a time; 0: any number
    std::string member_of{};           // resume: the array that it was, and is, one of; empty: none
    std::uint32_t member_index = 0;
    std::string program{};  // as Run::program
    bool operator==(const RunSubmitted&) const = default;
};
struct RunStopAsked {
    RunId run;
    std::string by;
    std::int64_t wall_ms = 0;
    bool checkpoint = false;           // once its next checkpoint is committed,
    std::optional<Duration> deadline;  // or this time has passed
    bool now = false;                  // neither its grace nor what is on its way of a checkpoint is waited for
    bool operator==(const RunStopAsked&) const = default;
};
struct RunCheckpointAsked { RunId run; std::string by; bool operator==(const RunCheckpointAsked&) const = default; };
struct RunResizeAsked {  // to `workers`, at its next commit or at the deadline
    RunId run;
    std::string by;
    std::uint32_t workers = 0;
    std::optional<Duration> deadline;
    bool operator==(const RunResizeAsked&) const = default;
};
struct RunRemoved { RunId run; bool operator==(const RunRemoved&) const = default; };  // only a terminal one
struct NodeRegistered {  // also on every reconnect: `held` is the whole truth about that node's processes
    NodeId node;
    std::string address;
    std::uint16_t port = 0;
    Labels labels;
    Resources total;  // without GPU
    std::uint32_t gpus = 0;
    std::vector<AttemptId> held;  // attempts this agent has processes or unfinished preparation of
    bool leaves = false;          // its agent drains it, and ends
    bool operator==(const NodeRegistered&) const = default;
};
struct NodeLost {  // silent for node_timeout
    NodeId node;
    std::string why;
    Duration silent{};  // since its last sign
    bool operator==(const NodeLost&) const = default;
};
struct NodeLeft { NodeId node; bool operator==(const NodeLeft&) const = default; };                   // `node leave`
struct NodeDrained {
    NodeId node;
    std::string by, reason;
    std::optional<Duration> deadline;  // none: runs leave when they have somewhere to go, or end
    bool by_itself = false;            // its agent was told to end (node join --drain-on-sigterm)
    bool operator==(const NodeDrained&) const = default;
};
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
    std::vector<Checkpoint> earlier;   // rank 0's node: what earlier runs of the name committed and this one goes on from
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
    Duration ago{};  // so long before the head heard of it
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
    std::optional<Time> answers{};  // the request (its `asked`) that its report came after; 0: none; not told: any
    Duration uploaded_in{};         // from its report to its commit
    bool operator==(const CheckpointCommitted&) const = default;
};
struct CheckpointDeleted { RunId run; std::string directory; bool operator==(const CheckpointDeleted&) const = default; };
struct CheckpointValidated {  // `pending`: it waits for its validation, or a trial that starts from it holds it
    RunId run;
    std::string directory;
    bool pending = false;
    std::map<std::string, double> metrics;  // join those of its report
    bool operator==(const CheckpointValidated&) const = default;
};
struct CheckpointVerified {  // somebody has read all of its files
    RunId run;
    std::string directory;
    std::int64_t wall_ms = 0;
    std::uint32_t faults = 0;  // files that are missing, short or changed
    bool operator==(const CheckpointVerified&) const = default;
};
struct StopMetricReached { AttemptId attempt; std::string key; double value = 0; bool operator==(const StopMetricReached&) const = default; };
struct QueuesConfigured { Queues queues; std::string by; bool operator==(const QueuesConfigured&) const = default; };  // checked by the shell
struct TimePassed { bool operator==(const TimePassed&) const = default; };  // next_wake has come

using Event = std::variant<HeadStarted, RunSubmitted, RunStopAsked, RunRemoved, NodeRegistered, NodeLost, NodeLeft, NodeDrained,
                           NodeUndrained, NodePrepared, NodePrepareFailed, WorkerStarted, FirstReport, WorkerExited, NodeEmptied,
                           CheckpointCommitted, CheckpointDeleted, StopMetricReached, TimePassed, QueuesConfigured, RunCheckpointAsked, RunResizeAsked,
                           CheckpointValidated, CheckpointVerified>;

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
    Reason why;
    bool at_once = false;  // a checkpoint that is on its way is given up
    bool operator==(const StopAttempt&) const = default;
};
struct RequestCheckpoint {  // the attempt's workers on this node are to bring a checkpoint soon (rtw_wanted)
    AttemptId attempt;
    NodeId node;
    RequestReason reason = RequestReason::by_operator;
    std::optional<Duration> left;  // until the deadline
    std::uint32_t workers = 0;     // resize: to how many
    Time asked{};                  // tells it from other asks
    bool operator==(const RequestCheckpoint&) const = default;
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
using Effect = std::variant<PrepareNode, LaunchWorkers, StopAttempt, RequestCheckpoint, DeleteCheckpoint, WriteResult>;
// clang-format on

}  // namespace rtrain

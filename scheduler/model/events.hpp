// The inputs of the core (events) and its outputs (effects): closed sets of plain values.
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
    std::optional<QuarantinePolicy> quarantine;  // new policy; nullopt: it does not change
    bool operator==(const HeadStarted&) const = default;
};
struct RunSubmitted {  // The shell has checked the spec, the user and the form of the name.
    std::string name, user, submit_key, job_json, storage_path;
    RunSpec spec;
    bool resume = false;
    std::string restore_from;
    std::vector<std::string> warnings;
    std::int64_t wall_ms = 0;
    std::vector<std::uint32_t> array;  // creates one run for each index, named NAME-<index>; all or none
    std::uint32_t array_parallel = 0;  // the most runs of the array at a time; 0: any number
    std::string member_of{};  // for a resume: the array that the earlier run belonged to; empty: none
    std::uint32_t member_index = 0;
    std::string program{}; Yielding yielding{}; RunId parent{};  // as in Run
    bool operator==(const RunSubmitted&) const = default;
};
struct RunStopAsked {
    RunId run; std::string by; std::int64_t wall_ms = 0;
    bool checkpoint = false;  // stops the run once its next checkpoint is committed,
    std::optional<Duration> deadline;  // or once this time has passed
    bool now = false;  // stops the run without the grace and without waiting for a checkpoint upload
    bool operator==(const RunStopAsked&) const = default;
};
struct RunCheckpointAsked { RunId run; std::string by; bool operator==(const RunCheckpointAsked&) const = default; };
struct RunResizeAsked {  // resizes to `workers` at the next commit or at the deadline
    RunId run;
    std::string by; std::uint32_t workers = 0;
    std::optional<Duration> deadline;
    bool operator==(const RunResizeAsked&) const = default;
};
struct RunPriorityChanged { RunId run; std::string by; std::int32_t priority = 0; bool operator==(const RunPriorityChanged&) const = default; };
struct RunYieldsChanged { RunId run; std::string by; Yielding yielding{}; bool operator==(const RunYieldsChanged&) const = default; };
struct RunRemoved { RunId run; bool operator==(const RunRemoved&) const = default; };  // only terminal runs can be removed
struct NodeRegistered {  // also sent on each reconnect; `held` lists all attempts with processes on the node
    NodeId node;
    std::string address;
    std::uint16_t port = 0;
    Labels labels;
    Resources total;  // amounts other than GPUs
    std::uint32_t gpus = 0;
    std::vector<AttemptId> held;  // attempts with processes or unfinished preparation on this node
    bool leaves = false;  // the agent drains its node and then ends
    bool operator==(const NodeRegistered&) const = default;
};
struct NodeLost {  // the node was silent for node_timeout
    NodeId node;
    std::string why;
    Duration silent{};  // time since the node's last message
    bool operator==(const NodeLost&) const = default;
};
struct NodeLeft { NodeId node; bool operator==(const NodeLeft&) const = default; };  // by the verb `node leave`
struct NodeDrained {
    NodeId node;
    std::string by, reason;
    std::optional<Duration> deadline;  // time until it; nullopt: a run moves if it has another place, else it runs to its end
    bool by_itself = false;  // the agent received the signal to end (node join --drain-on-sigterm)
    bool by_disk = false;  // the disk of the agent is nearly full; such a drain changes only a node that is in use
    bool operator==(const NodeDrained&) const = default;
};
struct NodeQuarantined { NodeId node; std::string by, reason; bool operator==(const NodeQuarantined&) const = default; };
struct NodeUndrained {
    NodeId node;
    bool by_disk = false;  // the disk has room again; ends a drain only if the disk was its reason
    bool operator==(const NodeUndrained&) const = default;
};
// A node is ready for the attempt: code is unpacked, storage is probed, the peers are reachable. Rank 0's node also
// sends the claim.
struct NodePrepared {
    AttemptId attempt;  // the attempt, with the number that PrepareNode had
    std::uint32_t incarnation = 0;
    NodeId node;
    // ---- from rank 0's node alone
    std::uint32_t claimed_number = 0;  // number that the attempt has claimed on storage; at least the number in `attempt`
    std::string from;                  // the newest committed checkpoint on the live branch
    std::string master_address;
    std::uint16_t master_port = 0;
    std::vector<Checkpoint> earlier;  // checkpoints of earlier runs of the name, from which this run continues
    bool operator==(const NodePrepared&) const = default;
};
struct NodePrepareFailed {
    AttemptId attempt;
    std::uint32_t incarnation = 0;
    NodeId node;
    std::string why;
    bool permanent = false;  // true: not retried, since the user must change something (no such storage, name taken, code damaged)
    bool operator==(const NodePrepareFailed&) const = default;
};
struct WorkerStarted { AttemptId attempt; Rank rank; std::int64_t pid = 0; bool operator==(const WorkerStarted&) const = default; };
struct FirstReport { AttemptId attempt; bool operator==(const FirstReport&) const = default; };  // sent for an attempt's first report
struct WorkerExited {
    AttemptId attempt;
    Rank rank;
    ExitCause cause;
    std::int64_t exit_wall_us = 0;
    Duration ago{};  // time between the event and its arrival at the head
    bool operator==(const WorkerExited&) const = default;
};
struct NodeEmptied { AttemptId attempt; NodeId node; bool operator==(const NodeEmptied&) const = default; };  // no process of it is left
struct CheckpointCommitted {
    AttemptId attempt;
    std::string directory;
    std::uint32_t world_size = 0;
    std::int64_t bytes = 0;
    std::map<std::string, double> metrics;
    std::int64_t wall_ms = 0;
    // `asked` of the request that the checkpoint's report answers. 0: it answers none. nullopt: unknown, counts for any.
    std::optional<Time> answers{};
    Duration uploaded_in{};  // time from the report to the commit
    bool operator==(const CheckpointCommitted&) const = default;
};
// a checkpoint of the attempt was given up before all of its files were stored
struct CheckpointLost { AttemptId attempt; std::string why; bool operator==(const CheckpointLost&) const = default; };
struct CheckpointDeleted { RunId run; std::string directory; bool operator==(const CheckpointDeleted&) const = default; };
// `pending`: the checkpoint waits for its validation, or a trial that starts from it holds it
struct CheckpointValidated {
    RunId run;
    std::string directory;
    bool pending = false;
    std::map<std::string, double> metrics;  // metrics of the validation; added to those of the checkpoint's report
    bool operator==(const CheckpointValidated&) const = default;
};
struct CheckpointVerified {  // a node has read all files of the checkpoint
    RunId run;
    std::string directory;
    std::int64_t wall_ms = 0;
    std::uint32_t faults = 0;  // number of files that are missing, short or changed
    bool operator==(const CheckpointVerified&) const = default;
};
struct StopMetricReached { AttemptId attempt; std::string key; double value = 0; bool operator==(const StopMetricReached&) const = default; };
// The run waits for its next attempt, and its user has reached a limit of stored data. `limit`: the limit and a remedy.
struct UserLimitReached { RunId run; std::string limit; bool operator==(const UserLimitReached&) const = default; };
// New queues, checked by the shell. Refused unless `changed_from`, the configuration that was edited, is the present one.
struct QueuesConfigured { Queues queues; std::string by; std::optional<Queues> changed_from{}; bool operator==(const QueuesConfigured&) const = default; };
struct TimePassed { bool operator==(const TimePassed&) const = default; };  // the time of next_wake has passed

using Event = std::variant<HeadStarted, RunSubmitted, RunStopAsked, RunRemoved, NodeRegistered, NodeLost, NodeLeft, NodeDrained,
                           NodeUndrained, NodePrepared, NodePrepareFailed, WorkerStarted, FirstReport, WorkerExited, NodeEmptied,
                           CheckpointCommitted, CheckpointDeleted, StopMetricReached, TimePassed, QueuesConfigured, RunCheckpointAsked, RunResizeAsked,
                           CheckpointValidated, CheckpointVerified, CheckpointLost, UserLimitReached, RunPriorityChanged, NodeQuarantined, RunYieldsChanged>;

// ---- effects ------------------------------------------------------------------------------------------------------
// Each effect is sent to one agent. A repeated effect is harmless: agents identify attempts by id and incarnation.
struct PrepareNode {  // sent to each node of a new attempt; `claim` is true for rank 0's node
    AttemptId attempt;
    std::uint32_t incarnation = 0;
    NodeId node;
    bool claim = false;
    bool operator==(const PrepareNode&) const = default;
};
struct LaunchWorkers {  // Every node is prepared: starts this node's workers. All facts are in the Attempt record.
    AttemptId attempt; NodeId node;
    bool operator==(const LaunchWorkers&) const = default;
};
struct StopAttempt {  // end everything of this attempt on this node, answer NodeEmptied; also for attempts given up long ago
    AttemptId attempt;
    std::uint32_t incarnation = 0;  // the attempt's incarnation; 0 if the head no longer has its record
    NodeId node;
    Duration grace;
    Reason why;
    bool at_once = false;  // true: unfinished checkpoint uploads are cancelled
    bool operator==(const StopAttempt&) const = default;
};
struct RequestCheckpoint {  // requests a checkpoint soon from the attempt's workers on this node (rtw_wanted)
    AttemptId attempt;
    NodeId node;
    RequestReason reason = RequestReason::by_operator;
    std::optional<Duration> left;  // time until the deadline
    std::uint32_t workers = 0;  // for a resize: the new number of workers
    Time asked{};  // identifies the request
    bool operator==(const RequestCheckpoint&) const = default;
};
struct DeleteCheckpoint {
    RunId run;
    std::string directory;
    NodeId node;  // the node that deletes it: a ready node of the run's last attempt, else any ready node
    bool operator==(const DeleteCheckpoint&) const = default;
};
// The run is terminal: `node` (empty: the head), a node of the run, writes result.json and copies the logs to storage.
struct WriteResult { RunId run; NodeId node; bool operator==(const WriteResult&) const = default; };
using Effect = std::variant<PrepareNode, LaunchWorkers, StopAttempt, RequestCheckpoint, DeleteCheckpoint, WriteResult>;
// clang-format on

}  // namespace rtrain

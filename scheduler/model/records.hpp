// The state of a cluster, as plain values. Only `decide` (controller.hpp) changes them. Each of these structs is one
// durable record; storage/state encodes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/model/gang.hpp"
#include "scheduler/model/ids.hpp"
#include "scheduler/model/policies.hpp"
#include "scheduler/model/queues.hpp"
#include "scheduler/model/resources.hpp"

namespace rtrain {

enum class RunState { queued, starting, running, recovering, resizing, stopping, succeeded, failed, stopped };
enum class AttemptState { placed, starting, running, stopping, succeeded, failed, stopped, lost };
enum class WorkerState { placed, running, exited };

constexpr bool terminal(RunState s) {
    return s == RunState::succeeded || s == RunState::failed || s == RunState::stopped;
}
constexpr bool terminal(AttemptState s) {
    return s == AttemptState::succeeded || s == AttemptState::failed || s == AttemptState::stopped ||
           s == AttemptState::lost;
}
const char* to_text(RunState);  // "QUEUED" ...: the words of every format
const char* to_text(AttemptState);
const char* to_text(WorkerState);
const char* to_text(NodeState);
const char* to_text(Strategy);  // "PACK" ...
const char* to_text(Verdict);   // "feasible now" ...
std::optional<RunState> run_state(std::string_view);
std::optional<AttemptState> attempt_state(std::string_view);
std::optional<WorkerState> worker_state(std::string_view);
std::optional<NodeState> node_state(std::string_view);
std::optional<Strategy> strategy(std::string_view);

// What the core needs to know of a job; the whole job is `Run::job_json`, which the core passes on unread.
struct RunSpec {
    GangRequest gang;  // one bundle per worker; elastic: as many as it may ever have
    std::optional<Elastic> elastic;
    std::int32_t priority = 50;
    std::string queue = "default";
    FailurePolicy failure;
    Retention retention;
    bool wait_for_nodes = true;
    std::optional<Duration> wall_time_limit;
    std::optional<Duration> queue_time_limit;
    Duration stop_grace{10'000};
    std::map<std::string, double> stop_at;  // metric -> value that ends the run (>=)
    bool checkpoint_on_drain = true;        // asked for a checkpoint, and moved, when a node of it drains
    std::vector<After> after;               // predecessors
    bool operator==(const RunSpec&) const = default;
};

struct Node {
    NodeId id;
    NodeState state = NodeState::ready;
    std::string address;     // host other nodes reach it by
    std::uint16_t port = 0;  // its agent's port for other agents
    Labels labels;
    Resources total;  // without GPU
    std::uint32_t gpus = 0;
    Time registered;
    Reason state_reason;                   // who drained it and why, or why it is lost
    NodeState back_as = NodeState::ready;  // lost: what it registers as (a drained one stays drained)
    std::optional<Time> drain_deadline;    // draining: what is still there then is stopped and moved
    std::vector<NodeFailure> failures;     // since the last success: the evidence for a quarantine
    bool operator==(const Node&) const = default;
};
// Returns the sentence of why a node is out of use. What a person gave as the reason stands in any case.
std::string why_out_of_use(const Node& node, JobWords words);

struct Worker {
    WorkerState state = WorkerState::placed;
    Seat seat;
    std::uint32_t local_rank = 0;
    std::uint32_t node_rank = 0;
    std::int64_t pid = 0;
    std::optional<ExitCause> exit;
    std::int64_t exit_wall_us = 0;  // the node's wall clock, microseconds: says who died first
    bool operator==(const Worker&) const = default;
};

struct Attempt {
    AttemptId id;
    AttemptState state = AttemptState::placed;
    std::vector<Worker> workers;        // index = world rank
    std::vector<NodeId> nodes_waiting;  // placed: still preparing. stopping: not yet empty
    std::string from;                   // checkpoint directory it starts from; empty: from nothing
    std::string master_address;
    std::uint16_t master_port = 0;
    std::uint32_t incarnation = 0;  // tells retried preparations of one run apart (claims may renumber)
    Time placed_at, prepared_at, started_at, ended_at;  // prepared_at: on every node
    Time work_ended;       // by its first failure, a lost node's last sign, or the order to end; 0: not yet
    Duration work_before;  // worker-time that `from` holds of attempts before (goodput/time_by_cause.hpp)
    AttemptState end_as = AttemptState::failed;  // stopping: what it becomes once empty
    Reason cause;                                // why it ended, or ends
    std::optional<Rank> first_failure;
    std::int64_t first_failure_lead_us = 0;    // before any other worker's death
    bool counted = false;                      // counts against max_failures
    bool committed = false;                    // a checkpoint of it was, before its end
    std::optional<CheckpointRequest> request;  // pending, or what the attempt was stopped for
    bool operator==(const Attempt&) const = default;
};

struct Checkpoint {
    RunId run;
    std::string directory;  // "checkpoint_000007-a002"
    std::uint32_t attempt = 0;
    std::uint64_t sequence = 0;  // order of commits in its run; of an earlier run's: in their attempt
    std::uint32_t world_size = 0;
    std::int64_t bytes = 0;
    std::map<std::string, double> metrics;  // numbers only; the rest is in the manifest
    Time committed;
    Duration uploaded_in;  // from its report to its commit
    std::int64_t committed_wall_ms = 0;
    std::int64_t verified_wall_ms = 0;          // when its files were verified last; 0: never
    std::uint32_t faults = 0;                   // of its files, then
    bool deleting = false, validating = false;  // kept until what its validation says counts as well
    bool earlier = false, spared = false;  // an earlier run's of the name; `num_to_keep` neither counts nor deletes it
    bool operator==(const Checkpoint&) const = default;
};

struct Run {
    RunId id;
    std::string name;
    std::string user;
    RunState state = RunState::queued;
    RunSpec spec;
    std::string job_json;      // the whole accepted job, canonical JSON
    std::string storage_path;  // the run's parent directory: "/mnt/runs", "cluster://"
    bool resume = false;       // its directory exists already (restore)
    std::string restore_from;  // a checkpoint asked for by name; empty: the newest
    std::string submit_key;    // idempotency
    Time submitted, started, ended;
    std::int64_t submitted_wall_ms = 0, ended_wall_ms = 0;
    std::uint32_t attempts = 0;  // highest number used
    std::uint32_t failures = 0;  // counted ones
    Time retry_at;               // recovering: not before
    std::vector<NodeId> nodes_avoided;
    Reason reason;                  // why it is in this state
    std::string stop_by;            // user who asked it to stop
    std::uint64_t checkpoints = 0;  // commits so far
    std::vector<std::string> warnings;
    std::vector<NodeId> nodes_reserved;  // the nodes of its reservation, by id
    Time reserved_from;                  // when it is expected to start there; 0: the time is unknown
    Seats seats_reserved;                // by rank; empty beside `nodes_reserved` (earlier versions): the whole nodes
    std::vector<AttemptId> reserved_after;  // time unknown: the attempts whose ends the reservation waits for, by id
    std::uint32_t workers_asked = 0;        // `rtrain resize`: so many, and no more; 0: as the spec says
    std::optional<Time> grow_since;         // elastic: since when there has been room for more workers
    std::vector<After> after;               // predecessors that it still waits for
    bool array_waits = false;               // as many of its array run as may at a time
    std::string array;                      // the job array it belongs to; empty: none
    std::uint32_t array_index = 0, array_parallel = 0;  // 0: any number at a time
    Time let_go;  // nothing has held it back since (predecessors, its array's limit); 0: since it was submitted
    Duration without_seats;  // since it had to leave its own, until it had others: no part of its wall_time
    std::optional<Duration> resize_within;  // for the checkpoint of a resize, counted from when there is room
    std::string program;  // which the head has found to have submitted it: see program_of. Empty: the run itself
    bool operator==(const Run&) const = default;
};

struct Meta {  // the counters of a cluster
    std::string cluster_id;
    std::uint64_t next_run = 1;
    std::uint64_t next_incarnation = 1;
    Time now;  // last persisted time
    QuarantinePolicy quarantine;
    bool operator==(const Meta&) const = default;
};

struct CheckpointKey {
    RunId run;
    std::string directory;
    auto operator<=>(const CheckpointKey&) const = default;
};

// clang-format off: what `decide` asks to be made durable (a new value of a record, or its removal), one a line
struct EraseNode { NodeId id; bool operator==(const EraseNode&) const = default; };
struct EraseRun { RunId id; bool operator==(const EraseRun&) const = default; };          // with attempts, checkpoints
struct EraseCheckpoint { CheckpointKey key; bool operator==(const EraseCheckpoint&) const = default; };
struct EraseAttempt { AttemptId id; bool operator==(const EraseAttempt&) const = default; };  // renumbered by its claim
// What a node's word changes in a gang's long attempt is saved alone, and lies over the Attempt that was saved last.
struct AttemptNode { AttemptId attempt; NodeId node; bool operator==(const AttemptNode&) const = default; };  // no longer waited for
struct AttemptWorker {  // what becomes of a worker
    AttemptId attempt; Rank rank; WorkerState state = WorkerState::placed; std::int64_t pid = 0;
    std::optional<ExitCause> exit; std::int64_t exit_wall_us = 0; bool operator==(const AttemptWorker&) const = default;
};
using Record = std::variant<Meta, Node, Run, Attempt, Checkpoint, EraseNode, EraseRun, EraseAttempt, EraseCheckpoint,
                            Queues, QueueUse, AttemptNode, AttemptWorker>;

}  // namespace rtrain

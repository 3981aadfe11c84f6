// The state of a cluster, as plain values. Only `decide` (controller.hpp) changes them. Each struct here is one durable
// record, which storage/state encodes.
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

// The part of a job that the core reads. `Run::job_json` is the whole job, which the core passes on unread.
struct RunSpec {
    GangRequest gang;  // one bundle per worker; elastic: as many bundles as the run may ever have workers
    std::optional<Elastic> elastic;
    std::int32_t priority = 50;
    std::string queue = "default";
    FailurePolicy failure;
    Retention retention;
    bool wait_for_nodes = true;
    std::optional<Duration> wall_time_limit;
    std::optional<Duration> queue_time_limit;
    Duration stop_grace{10'000};
    std::map<std::string, double> stop_at;  // metric -> value at which the run ends (>=)
    bool checkpoint_on_drain = true;        // if a node of the run drains, the run is asked for a checkpoint and moved
    std::vector<After> after;               // the run's predecessors
    bool operator==(const RunSpec&) const = default;
};

struct Node {
    NodeId id;
    NodeState state = NodeState::ready;
    std::string address;     // host name under which other nodes reach the node
    std::uint16_t port = 0;  // port of the node's agent for other agents
    Labels labels;
    Resources total;  // amounts other than GPUs
    std::uint32_t gpus = 0;
    Time registered;
    Reason state_reason;                   // why the node is drained, and by which user, or why it is lost
    NodeState back_as = NodeState::ready;  // lost: the state after the next registration
    std::optional<Time> drain_deadline;  // draining: runs that are still on the node at this time are stopped and moved
    std::vector<NodeFailure> failures;   // failures since the last success: the evidence for a quarantine
    bool awaited = false;  // the node has not registered since the head's start; it takes no new bundle until then
    bool operator==(const Node&) const = default;
};
// Returns the sentence that says why a node is out of use. It contains the reason that a person gave in any case.
std::string why_out_of_use(const Node& node, JobWords words);

struct Worker {
    WorkerState state = WorkerState::placed;
    Seat seat;
    std::uint32_t local_rank = 0;
    std::uint32_t node_rank = 0;
    std::int64_t pid = 0;
    std::optional<ExitCause> exit;
    std::int64_t exit_wall_us = 0;  // wall clock of the node in microseconds; decides which rank died first
    bool operator==(const Worker&) const = default;
};

struct Attempt {
    AttemptId id;
    AttemptState state = AttemptState::placed;
    std::vector<Worker> workers;        // index = world rank
    std::vector<NodeId> nodes_waiting;  // placed: still preparing; stopping: not empty yet
    std::string from;  // directory of the checkpoint that the attempt starts from; empty: it starts from the beginning
    std::string master_address;
    std::uint16_t master_port = 0;
    std::uint32_t incarnation = 0;  // distinguishes retried preparations of one run (claims may renumber attempts)
    Time placed_at, prepared_at, started_at, ended_at;  // prepared_at: when all nodes were prepared
    Time work_ended;  // time of the first failure, of a lost node's last message, or of the order to end; 0: none yet
    Duration work_before;  // work of earlier attempts, in worker-time, that `from` contains (goodput/time_by_cause.hpp)
    AttemptState end_as = AttemptState::failed;  // stopping: the state after all nodes are empty
    Reason cause;                                // why the attempt ended or ends
    std::optional<Rank> first_failure;
    std::int64_t first_failure_lead_us = 0;    // time from the first failure to the next death
    bool counted = false, committed = false;   // counts against max_failures; committed a checkpoint before its end
    bool lost_in_start = false;                // ended because a node was lost while its start was under way there
    bool lost_uncounted = false;               // ended because a node was lost; not counted against max_failures
    std::vector<NodeId> forgotten_by;          // placed: nodes that lost their preparation, once for each time
    std::optional<CheckpointRequest> request;  // a pending request, or the one that the attempt was stopped for
    std::uint32_t checkpoints_lost = 0;        // number of reported checkpoints that never reached the storage
    std::string last_checkpoint_lost;          // the agent's sentence about the newest of them
    bool operator==(const Attempt&) const = default;
};

struct Checkpoint {
    RunId run;
    std::string directory;  // "checkpoint_000007-a002"
    std::uint32_t attempt = 0;
    std::uint64_t sequence = 0;  // order of commits in the run; for an earlier run's checkpoint: in its attempt
    std::uint32_t world_size = 0;
    std::int64_t bytes = 0;
    std::map<std::string, double> metrics;  // numbers only; the manifest has all metrics
    Time committed;
    Duration uploaded_in;  // time from the report to the commit
    std::int64_t committed_wall_ms = 0;
    std::int64_t verified_wall_ms = 0;          // time of the last verification of the files; 0: never
    std::uint32_t faults = 0;                   // number of faulty files at that time
    bool deleting = false, validating = false;  // `validating`: kept until the metrics of its validation are known
    bool earlier = false, spared = false;       // earlier: of an earlier run; spared: exempt from `num_to_keep`
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
    bool resume = false;       // true: the run's directory exists already (restore)
    std::string restore_from;  // name of the checkpoint to start from; empty: the newest one
    std::string submit_key;    // key for idempotent submission
    Time submitted, started, ended;
    std::int64_t submitted_wall_ms = 0, ended_wall_ms = 0;
    std::uint32_t attempts = 0;  // highest attempt number so far
    std::uint32_t failures = 0;  // number of counted failures
    Time retry_at;               // recovering: the next attempt starts at this time or later
    std::vector<NodeId> nodes_avoided;
    Reason reason;                  // why the run is in its state
    std::string stop_by;            // the user who requested the stop
    std::uint64_t checkpoints = 0;  // number of commits so far
    std::vector<std::string> warnings;
    std::vector<NodeId> nodes_reserved;  // nodes of the run's reservation, sorted by id
    Time reserved_from;                  // expected start on the reserved nodes; 0: unknown
    Seats seats_reserved;  // by rank; empty although `nodes_reserved` is not: whole nodes (earlier versions)
    std::vector<AttemptId> reserved_after;  // for an unknown start: the attempts whose ends the run waits for
    std::uint32_t workers_asked = 0;        // exact number of workers that `rtrain resize` has set; 0: as in the spec
    std::optional<Time> grow_since;         // elastic: the time since which there has been room for more workers
    std::vector<After> after;               // predecessors that the run still waits for
    bool array_waits = false;               // true: the array's limit of parallel runs holds this run back
    std::string array;                      // the job array that the run belongs to; empty: none
    std::uint32_t array_index = 0, array_parallel = 0;  // the most runs at a time; 0: any number
    Time let_go;                                        // when predecessors and array stopped blocking; 0: never did
    Duration without_seats;                             // time between seats; does not count as wall_time
    std::optional<Duration> resize_within;              // limit for a resize's checkpoint, once there is room
    std::string program;                                // its submitter (see program_of); empty: itself
    Yielding yielding = Yielding::never;
    RunId parent{};  // the owner of a run that may yield; 0: a session owns it
    bool operator==(const Run&) const = default;
};

// A job array whose runs are not all made yet. Runs are made in slices, so that no event makes thousands of records.
// Invariants: 0 < runs_made < indices.size(); the run of indices[i] has the id model.id + i.
struct PendingArray {
    // The values that all runs share, with the id of the first run and the name of the array. FAILED or STOPPED: a
    // predecessor has ended so, and each run that is still to be made ends at once.
    Run model;
    std::vector<std::uint32_t> indices;  // indices of the array's runs, sorted
    std::uint32_t runs_made = 0;         // number of runs made so far
    // number of places within `array_parallel` that ended runs have passed on to runs that are still to be made
    std::uint32_t released = 0;
    bool operator==(const PendingArray&) const = default;
};

struct Meta {  // counters of the cluster
    std::string cluster_id;
    std::uint64_t next_run = 1;
    std::uint64_t next_incarnation = 1;
    Time now;  // last time that was stored
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
struct EraseRun { RunId id; bool operator==(const EraseRun&) const = default; };  // includes attempts and checkpoints
struct EraseCheckpoint { CheckpointKey key; bool operator==(const EraseCheckpoint&) const = default; };
// all runs of the array are made
struct EraseArray { RunId first; bool operator==(const EraseArray&) const = default; };
// the attempt was renumbered by its claim
struct EraseAttempt { AttemptId id; bool operator==(const EraseAttempt&) const = default; };
// A small record for one change inside a large attempt. At load, it is applied on top of the last saved `Attempt`.
// the node is removed from nodes_waiting
struct AttemptNode { AttemptId attempt; NodeId node; bool operator==(const AttemptNode&) const = default; };
struct AttemptWorker {  // the new state of a worker
    AttemptId attempt; Rank rank; WorkerState state = WorkerState::placed; std::int64_t pid = 0;
    std::optional<ExitCause> exit; std::int64_t exit_wall_us = 0; bool operator==(const AttemptWorker&) const = default;
};
using Record = std::variant<Meta, Node, Run, Attempt, Checkpoint, EraseNode, EraseRun, EraseAttempt, EraseCheckpoint,
                            Queues, QueueUse, AttemptNode, AttemptWorker, PendingArray, EraseArray, BudgetUse,
                            EraseBudgetUse>;

}  // namespace rtrain

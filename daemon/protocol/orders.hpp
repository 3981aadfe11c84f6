// The head's orders to an agent about attempts, checkpoints and runs. A repeated order is harmless.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/protocol/attempt_ref.hpp"

namespace rtrain::protocol {

// clang-format off: fields that belong together stand on one line
struct PeerNode {
    std::string node{}, address{}; std::uint16_t port = 0; std::vector<std::uint32_t> ranks{};
    bool operator==(const PeerNode&) const = default;
};
// The owner of the storage path, for the agent's rules, and the S3 credentials from the run's own secrets.
struct StorageAccess {
    std::string user{}, queue{};
    bool own = false;  // the job has credentials, so the agent's own are not used
    // AWS_* variables of the job; empty: the run has ended, and the agent removes them
    std::map<std::string, std::string> secrets{};
    bool operator==(const StorageAccess&) const = default;
};
struct Prepare {
    AttemptRef attempt{};  // `number`: the least number to claim
    std::string cluster_id{}, run_id{}, run_name{}, user{}, storage_path{}, job_json{};
    bool claim = false;  // this node runs rank 0: it claims the attempt on storage and chooses the master port
    bool resume = false;
    std::string restore_from{};
    std::uint32_t world_size = 0;
    std::vector<PeerNode> nodes{};  // all nodes of the attempt; the node of rank 0 is the first
    std::string code_sha256{};  // empty: the job has no working directory
    std::uint32_t attempts_before = 0;
    std::uint32_t workers_before = 0;  // world size of the attempt before this one; 0: no such attempt
    std::string ended_before{};  // why that attempt ended: resize, drain, preemption, failure
    std::uint32_t array_index = 0;  // index in the job array; 0 with an empty array name: no array
    std::string array{};
    bool any_user = false;  // an admin submitted the run: the directory that it resumes may belong to any user
    StorageAccess access{};
    bool operator==(const Prepare&) const = default;
};
struct LaunchWorker {
    std::uint32_t rank = 0, local_rank = 0; std::vector<std::uint32_t> gpus{};
    std::vector<std::int64_t> gpu_ticks{}; std::int64_t cpu_ticks = 0;
    bool operator==(const LaunchWorker&) const = default;
};
struct Launch {
    AttemptRef attempt{};  // with its final number
    std::string from{}, master_address{};
    std::uint16_t master_port = 0;
    std::uint32_t node_rank = 0;
    std::vector<LaunchWorker> workers{};
    std::map<std::string, std::string> secrets{};
    std::string token{};  // RTRAIN_TOKEN, limited to the run's user
    std::uint64_t checkpoint_counter = 0;  // number of commits of this run so far, for the names of new directories
    bool operator==(const Launch&) const = default;
};
struct Stop {
    AttemptRef attempt{}; std::int64_t grace_ms = 0; std::string why{};
    // "FAILED" ...: state after the attempt is empty; empty: the head has no record of the attempt
    std::string end_as{};
    bool alone = false;  // all other nodes of the attempt are empty or lost, so no further messages come from them
    bool at_once = false;  // the user requested it: an unfinished checkpoint upload is cancelled
    bool operator==(const Stop&) const = default;
};
// Requests a checkpoint soon from the attempt's workers on this node.
struct RequestCheckpoint {
    AttemptRef attempt{}; std::string reason{};  // operator, resize, drain, preemption, stop
    std::int64_t left_ms = -1;  // time until the deadline; -1: no deadline
    std::uint32_t workers = 0;  // resize: the new number of workers
    std::int64_t asked = 0;  // identifies the request; equal when it is repeated; 0: an older head
    bool operator==(const RequestCheckpoint&) const = default;
};
struct Delete {
    std::uint64_t run = 0; std::string run_name{}, storage_path{}, directory{};
    std::uint32_t newest_attempt = 0;
    std::string user{};  // the run's user, with whose rights the files are accessed
    StorageAccess access{};
    bool operator==(const Delete&) const = default;
};
// write result.json
struct Result_ {
    std::uint64_t run = 0; std::string run_name{}, storage_path{}, result_json{};
    std::string user{};  // the run's user, with whose rights the file is written
    StorageAccess access{};
    bool operator==(const Result_&) const = default;
};
// Python ranks write their stacks into their logs; a process without a handler for the signal is left alone
struct TakeStacks {
    AttemptRef attempt{}; std::vector<std::uint32_t> ranks{}; std::string why{};
    bool operator==(const TakeStacks&) const = default;
};
// Removes the files of a run that has ended and is being removed, if run.json there names this cluster and one of these
// runs (a resumed run has the files of its predecessor). Without run ids: any run of this cluster. With a user: only if
// run.json names that user. The answer is Cleared.
struct Clear {
    std::uint64_t id = 0; std::string cluster_id{}; std::vector<std::string> run_ids{};
    std::string run_name{}, storage_path{};
    std::string user{};  // empty: any user
    StorageAccess access{};
    bool operator==(const Clear&) const = default;
};
// The run has ended: its nodes can remove what they keep for its next attempt.
struct RunEnded {
    std::uint64_t run = 0;
    bool operator==(const RunEnded&) const = default;
};
// all logs of the attempt are acknowledged: the node can remove their files
struct Forget {
    AttemptRef attempt{};
    bool operator==(const Forget&) const = default;
};
// clang-format on

}  // namespace rtrain::protocol

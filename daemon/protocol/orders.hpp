// What the head orders an agent to do about attempts, checkpoints and runs. Said twice they do no harm.
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
// The owner of the storage path, for the agent's rules, and the S3 credentials that the run's own secrets bring.
struct StorageAccess {
    std::string user{}, queue{};
    bool own = false;                              // the job brings credentials: the agent's are not used
    std::map<std::string, std::string> secrets{};  // AWS_* of the job; empty: the run has ended, they are forgotten
    bool operator==(const StorageAccess&) const = default;
};
struct Prepare {
    AttemptRef attempt{};               // number: the one to claim at least
    std::string cluster_id{}, run_id{}, run_name{}, user{}, storage_path{}, job_json{};
    bool claim = false;               // this node runs rank 0: claim on storage, choose the master port
    bool resume = false;
    std::string restore_from{};
    std::uint32_t world_size = 0;
    std::vector<PeerNode> nodes{};      // all nodes of the attempt, rank 0's first
    std::string code_sha256{};          // empty: no working directory
    std::uint32_t attempts_before = 0;
    std::uint32_t workers_before = 0;   // the world size of the attempt before this one; 0: there was none
    std::string ended_before{};         // why that one ended: resize, drain, preemption, failure
    std::uint32_t array_index = 0;      // in its job array; 0 with an empty array name: no array
    std::string array{};
    bool any_user = false;              // an admin submitted it: the directory that it goes on from may be anybody's
    StorageAccess access{};
    bool operator==(const Prepare&) const = default;
};
struct LaunchWorker {
    std::uint32_t rank = 0, local_rank = 0; std::vector<std::uint32_t> gpus{};
    std::vector<std::int64_t> gpu_ticks{}; std::int64_t cpu_ticks = 0;
    bool operator==(const LaunchWorker&) const = default;
};
struct Launch {
    AttemptRef attempt{};               // number settled
    std::string from{}, master_address{};
    std::uint16_t master_port = 0;
    std::uint32_t node_rank = 0;
    std::vector<LaunchWorker> workers{};
    std::map<std::string, std::string> secrets{};
    std::string token{};                // RTRAIN_TOKEN, limited to the run's user
    std::uint64_t checkpoint_counter = 0;  // commits of this run so far: numbers new directories
    bool operator==(const Launch&) const = default;
};
struct Stop {
    AttemptRef attempt{}; std::int64_t grace_ms = 0; std::string why{};
    std::string end_as{};  // "FAILED" ...: what the attempt becomes; empty: the head has no record of it
    bool alone = false;    // every other node of the attempt is empty, or lost: nothing more comes from them
    bool at_once = false;  // by its user's wish: a checkpoint that is on its way is given up
    bool operator==(const Stop&) const = default;
};
// The workers of the attempt on this node are to bring a checkpoint soon.
struct RequestCheckpoint {
    AttemptRef attempt{}; std::string reason{};  // operator, resize, drain, preemption, stop
    std::int64_t left_ms = -1;                   // until the deadline; -1: none
    std::uint32_t workers = 0;                   // resize: to how many
    std::int64_t asked = 0;                      // tells requests apart; of a repeated one it is the same; 0: an older head
    bool operator==(const RequestCheckpoint&) const = default;
};
struct Delete {
    std::uint64_t run = 0; std::string run_name{}, storage_path{}, directory{};
    std::uint32_t newest_attempt = 0;
    std::string user{};  // the run's: with whose rights it is done
    StorageAccess access{};
    bool operator==(const Delete&) const = default;
};
// write result.json
struct Result_ {
    std::uint64_t run = 0; std::string run_name{}, storage_path{}, result_json{};
    std::string user{};  // the run's: with whose rights it is written
    StorageAccess access{};
    bool operator==(const Result_&) const = default;
};
// Python ranks write their stacks into their logs; whoever has no handler for it is left alone
struct TakeStacks {
    AttemptRef attempt{}; std::vector<std::uint32_t> ranks{}; std::string why{};
    bool operator==(const TakeStacks&) const = default;
};
// Remove the files of a run that has ended and is being removed, if run.json there names this cluster and one of these
// runs: a run that was resumed has those of its forerunner. No run ids: any of this cluster. With a user, only if it
// names that user. Answered by Cleared.
struct Clear {
    std::uint64_t id = 0; std::string cluster_id{}; std::vector<std::string> run_ids{};
    std::string run_name{}, storage_path{};
    std::string user{};  // empty: whoever's
    StorageAccess access{};
    bool operator==(const Clear&) const = default;
};
// The run has ended: what its nodes keep for its next attempt may go.
struct RunEnded {
    std::uint64_t run = 0;
    bool operator==(const RunEnded&) const = default;
};
// everything of it is acknowledged: its files on the node may go
struct Forget {
    AttemptRef attempt{};
    bool operator==(const Forget&) const = default;
};
// clang-format on

}  // namespace rtrain::protocol

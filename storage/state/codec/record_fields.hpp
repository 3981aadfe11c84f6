// The fields of every record, under the names that they have on disk. These names never change: if a member is renamed,
// its text stays.
#pragma once

#include "scheduler/model/records.hpp"
#include "storage/state/codec/reason_fields.hpp"

namespace rtrain::state {

template <>
struct Fields<Worker> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(Worker, state), RTRAIN_FIELD(Worker, seat), RTRAIN_FIELD(Worker, local_rank),
                   RTRAIN_FIELD(Worker, node_rank), RTRAIN_FIELD(Worker, pid), RTRAIN_FIELD(Worker, exit),
                   RTRAIN_FIELD(Worker, exit_wall_us));
};
template <>
struct Fields<CheckpointKey> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(CheckpointKey, run), RTRAIN_FIELD(CheckpointKey, directory));
};

template <>
struct Fields<Meta> {
    static constexpr const char* type = "Meta";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(Meta, cluster_id), RTRAIN_FIELD(Meta, next_run), RTRAIN_FIELD(Meta, next_incarnation),
                   RTRAIN_FIELD(Meta, now), RTRAIN_FIELD(Meta, quarantine));
};
template <>
struct Fields<Node> {
    static constexpr const char* type = "Node";
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(Node, id), RTRAIN_FIELD(Node, state), RTRAIN_FIELD(Node, address), RTRAIN_FIELD(Node, port),
        RTRAIN_FIELD(Node, labels), RTRAIN_FIELD(Node, total), RTRAIN_FIELD(Node, gpus), RTRAIN_FIELD(Node, registered),
        RTRAIN_FIELD(Node, state_reason), RTRAIN_FIELD(Node, back_as), RTRAIN_FIELD(Node, drain_deadline),
        RTRAIN_FIELD(Node, failures), RTRAIN_FIELD(Node, awaited));
};
template <>
struct Fields<Run> {
    static constexpr const char* type = "Run";
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(Run, id), RTRAIN_FIELD(Run, name), RTRAIN_FIELD(Run, user), RTRAIN_FIELD(Run, state),
        RTRAIN_FIELD(Run, spec), RTRAIN_FIELD(Run, job_json), RTRAIN_FIELD(Run, storage_path),
        RTRAIN_FIELD(Run, resume), RTRAIN_FIELD(Run, restore_from), RTRAIN_FIELD(Run, submit_key),
        RTRAIN_FIELD(Run, submitted), RTRAIN_FIELD(Run, started), RTRAIN_FIELD(Run, ended),
        RTRAIN_FIELD(Run, submitted_wall_ms), RTRAIN_FIELD(Run, ended_wall_ms), RTRAIN_FIELD(Run, attempts),
        RTRAIN_FIELD(Run, failures), RTRAIN_FIELD(Run, retry_at), RTRAIN_FIELD(Run, nodes_avoided),
        RTRAIN_FIELD(Run, reason), RTRAIN_FIELD(Run, stop_by), RTRAIN_FIELD(Run, checkpoints),
        RTRAIN_FIELD(Run, warnings), RTRAIN_FIELD(Run, nodes_reserved), RTRAIN_FIELD(Run, reserved_from),
        RTRAIN_FIELD(Run, workers_asked), RTRAIN_FIELD(Run, grow_since), RTRAIN_FIELD(Run, after),
        RTRAIN_FIELD(Run, array_waits), RTRAIN_FIELD(Run, array), RTRAIN_FIELD(Run, array_index),
        RTRAIN_FIELD(Run, array_parallel), RTRAIN_FIELD(Run, let_go), Field{"gave_way", &Run::without_seats},
        RTRAIN_FIELD(Run, resize_within), RTRAIN_FIELD(Run, seats_reserved), RTRAIN_FIELD(Run, reserved_after),
        RTRAIN_FIELD(Run, program), RTRAIN_FIELD(Run, yielding), RTRAIN_FIELD(Run, parent));
};
template <>
struct Fields<PendingArray> {
    static constexpr const char* type = "PendingArray";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(PendingArray, model), RTRAIN_FIELD(PendingArray, indices),
                   RTRAIN_FIELD(PendingArray, runs_made), RTRAIN_FIELD(PendingArray, released));
};
template <>
struct Fields<EraseArray> {
    static constexpr const char* type = "EraseArray";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(EraseArray, first));
};
template <>
struct Fields<Attempt> {
    static constexpr const char* type = "Attempt";
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(Attempt, id), RTRAIN_FIELD(Attempt, state), RTRAIN_FIELD(Attempt, workers),
        RTRAIN_FIELD(Attempt, nodes_waiting), RTRAIN_FIELD(Attempt, from), RTRAIN_FIELD(Attempt, master_address),
        RTRAIN_FIELD(Attempt, master_port), RTRAIN_FIELD(Attempt, incarnation), RTRAIN_FIELD(Attempt, placed_at),
        RTRAIN_FIELD(Attempt, started_at), RTRAIN_FIELD(Attempt, ended_at), RTRAIN_FIELD(Attempt, prepared_at),
        RTRAIN_FIELD(Attempt, work_ended), RTRAIN_FIELD(Attempt, work_before), RTRAIN_FIELD(Attempt, end_as),
        RTRAIN_FIELD(Attempt, cause), RTRAIN_FIELD(Attempt, first_failure),
        RTRAIN_FIELD(Attempt, first_failure_lead_us), RTRAIN_FIELD(Attempt, counted), RTRAIN_FIELD(Attempt, committed),
        Field{"ask", &Attempt::request}, RTRAIN_FIELD(Attempt, lost_in_start), RTRAIN_FIELD(Attempt, lost_uncounted),
        RTRAIN_FIELD(Attempt, forgotten_by), RTRAIN_FIELD(Attempt, checkpoints_lost),
        RTRAIN_FIELD(Attempt, last_checkpoint_lost));
};
template <>
struct Fields<Checkpoint> {
    static constexpr const char* type = "Checkpoint";
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(Checkpoint, run), RTRAIN_FIELD(Checkpoint, directory), RTRAIN_FIELD(Checkpoint, attempt),
        RTRAIN_FIELD(Checkpoint, sequence), RTRAIN_FIELD(Checkpoint, world_size), RTRAIN_FIELD(Checkpoint, bytes),
        RTRAIN_FIELD(Checkpoint, metrics), RTRAIN_FIELD(Checkpoint, committed), RTRAIN_FIELD(Checkpoint, uploaded_in),
        RTRAIN_FIELD(Checkpoint, committed_wall_ms), RTRAIN_FIELD(Checkpoint, deleting),
        RTRAIN_FIELD(Checkpoint, validating), RTRAIN_FIELD(Checkpoint, earlier), RTRAIN_FIELD(Checkpoint, spared),
        RTRAIN_FIELD(Checkpoint, verified_wall_ms), RTRAIN_FIELD(Checkpoint, faults));
};
template <>
struct Fields<QueueRules> {
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(QueueRules, share), RTRAIN_FIELD(QueueRules, parent), RTRAIN_FIELD(QueueRules, quota),
        RTRAIN_FIELD(QueueRules, borrow), RTRAIN_FIELD(QueueRules, preempt), RTRAIN_FIELD(QueueRules, user_runs),
        RTRAIN_FIELD(QueueRules, user_gpus), RTRAIN_FIELD(QueueRules, gpu_hours),
        RTRAIN_FIELD(QueueRules, user_gpu_hours), RTRAIN_FIELD(QueueRules, user_gpu_hours_of),
        RTRAIN_FIELD(QueueRules, budget_window), RTRAIN_FIELD(QueueRules, budget_preempts));
};
template <>
struct Fields<Queues> {
    static constexpr const char* type = "Queues";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(Queues, rules), RTRAIN_FIELD(Queues, half_life),
                                            RTRAIN_FIELD(Queues, preemption_grace));
};
template <>
struct Fields<QueueUse> {
    static constexpr const char* type = "QueueUse";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(QueueUse, queue), RTRAIN_FIELD(QueueUse, at),
                                            RTRAIN_FIELD(QueueUse, held), RTRAIN_FIELD(QueueUse, level));
};
template <>
struct Fields<EraseNode> {
    static constexpr const char* type = "EraseNode";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(EraseNode, id));
};
template <>
struct Fields<EraseRun> {
    static constexpr const char* type = "EraseRun";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(EraseRun, id));
};
template <>
struct Fields<EraseAttempt> {
    static constexpr const char* type = "EraseAttempt";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(EraseAttempt, id));
};
template <>
struct Fields<AttemptNode> {
    static constexpr const char* type = "AttemptNode";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(AttemptNode, attempt), RTRAIN_FIELD(AttemptNode, node));
};
template <>
struct Fields<AttemptWorker> {
    static constexpr const char* type = "AttemptWorker";
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(AttemptWorker, attempt), RTRAIN_FIELD(AttemptWorker, rank), RTRAIN_FIELD(AttemptWorker, state),
        RTRAIN_FIELD(AttemptWorker, pid), RTRAIN_FIELD(AttemptWorker, exit), RTRAIN_FIELD(AttemptWorker, exit_wall_us));
};
template <>
struct Fields<EraseCheckpoint> {
    static constexpr const char* type = "EraseCheckpoint";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(EraseCheckpoint, key));
};

}  // namespace rtrain::state

// The fields of every event, under the names that they have on disk.
#pragma once

#include "scheduler/model/events.hpp"
#include "storage/state/codec/record_fields.hpp"

namespace rtrain::state {

template <>
struct Fields<HeadStarted> {
    static constexpr const char* type = "HeadStarted";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(HeadStarted, wall_ms), RTRAIN_FIELD(HeadStarted, quarantine));
};
template <>
struct Fields<RunSubmitted> {
    static constexpr const char* type = "RunSubmitted";
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(RunSubmitted, name), RTRAIN_FIELD(RunSubmitted, user), RTRAIN_FIELD(RunSubmitted, submit_key),
        RTRAIN_FIELD(RunSubmitted, job_json), RTRAIN_FIELD(RunSubmitted, storage_path),
        RTRAIN_FIELD(RunSubmitted, spec), RTRAIN_FIELD(RunSubmitted, resume), RTRAIN_FIELD(RunSubmitted, restore_from),
        RTRAIN_FIELD(RunSubmitted, warnings), RTRAIN_FIELD(RunSubmitted, wall_ms), RTRAIN_FIELD(RunSubmitted, array),
        RTRAIN_FIELD(RunSubmitted, array_parallel), RTRAIN_FIELD(RunSubmitted, member_of),
        RTRAIN_FIELD(RunSubmitted, member_index), RTRAIN_FIELD(RunSubmitted, program),
        RTRAIN_FIELD(RunSubmitted, yielding), RTRAIN_FIELD(RunSubmitted, parent));
};
template <>
struct Fields<RunStopAsked> {
    static constexpr const char* type = "RunStopAsked";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(RunStopAsked, run), RTRAIN_FIELD(RunStopAsked, by),
                                            RTRAIN_FIELD(RunStopAsked, wall_ms), RTRAIN_FIELD(RunStopAsked, checkpoint),
                                            RTRAIN_FIELD(RunStopAsked, deadline), RTRAIN_FIELD(RunStopAsked, now));
};
template <>
struct Fields<RunCheckpointAsked> {
    static constexpr const char* type = "RunCheckpointAsked";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(RunCheckpointAsked, run), RTRAIN_FIELD(RunCheckpointAsked, by));
};
template <>
struct Fields<RunResizeAsked> {
    static constexpr const char* type = "RunResizeAsked";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(RunResizeAsked, run), RTRAIN_FIELD(RunResizeAsked, by),
                   RTRAIN_FIELD(RunResizeAsked, workers), RTRAIN_FIELD(RunResizeAsked, deadline));
};
template <>
struct Fields<RunPriorityChanged> {
    static constexpr const char* type = "RunPriorityChanged";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(RunPriorityChanged, run), RTRAIN_FIELD(RunPriorityChanged, by),
                                            RTRAIN_FIELD(RunPriorityChanged, priority));
};
template <>
struct Fields<RunYieldsChanged> {
    static constexpr const char* type = "RunYieldsChanged";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(RunYieldsChanged, run), RTRAIN_FIELD(RunYieldsChanged, by),
                                            RTRAIN_FIELD(RunYieldsChanged, yielding));
};
template <>
struct Fields<RunRemoved> {
    static constexpr const char* type = "RunRemoved";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(RunRemoved, run));
};
template <>
struct Fields<NodeRegistered> {
    static constexpr const char* type = "NodeRegistered";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(NodeRegistered, node), RTRAIN_FIELD(NodeRegistered, address),
                                            RTRAIN_FIELD(NodeRegistered, port), RTRAIN_FIELD(NodeRegistered, labels),
                                            RTRAIN_FIELD(NodeRegistered, total), RTRAIN_FIELD(NodeRegistered, gpus),
                                            RTRAIN_FIELD(NodeRegistered, held), RTRAIN_FIELD(NodeRegistered, leaves));
};
template <>
struct Fields<NodeLost> {
    static constexpr const char* type = "NodeLost";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(NodeLost, node), RTRAIN_FIELD(NodeLost, why), RTRAIN_FIELD(NodeLost, silent));
};
template <>
struct Fields<NodeLeft> {
    static constexpr const char* type = "NodeLeft";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(NodeLeft, node));
};
template <>
struct Fields<NodeDrained> {
    static constexpr const char* type = "NodeDrained";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(NodeDrained, node), RTRAIN_FIELD(NodeDrained, by),
                                            RTRAIN_FIELD(NodeDrained, reason), RTRAIN_FIELD(NodeDrained, deadline),
                                            RTRAIN_FIELD(NodeDrained, by_itself), RTRAIN_FIELD(NodeDrained, by_disk));
};
template <>
struct Fields<NodeQuarantined> {
    static constexpr const char* type = "NodeQuarantined";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(NodeQuarantined, node), RTRAIN_FIELD(NodeQuarantined, by),
                                            RTRAIN_FIELD(NodeQuarantined, reason));
};
template <>
struct Fields<NodeUndrained> {
    static constexpr const char* type = "NodeUndrained";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(NodeUndrained, node), RTRAIN_FIELD(NodeUndrained, by_disk));
};
template <>
struct Fields<NodePrepared> {
    static constexpr const char* type = "NodePrepared";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(NodePrepared, attempt), RTRAIN_FIELD(NodePrepared, incarnation),
                   RTRAIN_FIELD(NodePrepared, node), RTRAIN_FIELD(NodePrepared, claimed_number),
                   RTRAIN_FIELD(NodePrepared, from), RTRAIN_FIELD(NodePrepared, master_address),
                   RTRAIN_FIELD(NodePrepared, master_port), RTRAIN_FIELD(NodePrepared, earlier));
};
template <>
struct Fields<NodePrepareFailed> {
    static constexpr const char* type = "NodePrepareFailed";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(NodePrepareFailed, attempt), RTRAIN_FIELD(NodePrepareFailed, incarnation),
                   RTRAIN_FIELD(NodePrepareFailed, node), RTRAIN_FIELD(NodePrepareFailed, why),
                   RTRAIN_FIELD(NodePrepareFailed, permanent));
};
template <>
struct Fields<WorkerStarted> {
    static constexpr const char* type = "WorkerStarted";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(WorkerStarted, attempt), RTRAIN_FIELD(WorkerStarted, rank),
                                            RTRAIN_FIELD(WorkerStarted, pid));
};
template <>
struct Fields<FirstReport> {
    static constexpr const char* type = "FirstReport";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(FirstReport, attempt));
};
template <>
struct Fields<WorkerExited> {
    static constexpr const char* type = "WorkerExited";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(WorkerExited, attempt), RTRAIN_FIELD(WorkerExited, rank),
                                            RTRAIN_FIELD(WorkerExited, cause), RTRAIN_FIELD(WorkerExited, exit_wall_us),
                                            RTRAIN_FIELD(WorkerExited, ago));
};
template <>
struct Fields<NodeEmptied> {
    static constexpr const char* type = "NodeEmptied";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(NodeEmptied, attempt), RTRAIN_FIELD(NodeEmptied, node));
};
template <>
struct Fields<CheckpointCommitted> {
    static constexpr const char* type = "CheckpointCommitted";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(CheckpointCommitted, attempt), RTRAIN_FIELD(CheckpointCommitted, directory),
                   RTRAIN_FIELD(CheckpointCommitted, world_size), RTRAIN_FIELD(CheckpointCommitted, bytes),
                   RTRAIN_FIELD(CheckpointCommitted, metrics), RTRAIN_FIELD(CheckpointCommitted, wall_ms),
                   RTRAIN_FIELD(CheckpointCommitted, answers), RTRAIN_FIELD(CheckpointCommitted, uploaded_in));
};
template <>
struct Fields<CheckpointDeleted> {
    static constexpr const char* type = "CheckpointDeleted";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(CheckpointDeleted, run), RTRAIN_FIELD(CheckpointDeleted, directory));
};
template <>
struct Fields<CheckpointValidated> {
    static constexpr const char* type = "CheckpointValidated";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(CheckpointValidated, run), RTRAIN_FIELD(CheckpointValidated, directory),
                   RTRAIN_FIELD(CheckpointValidated, pending), RTRAIN_FIELD(CheckpointValidated, metrics));
};
template <>
struct Fields<CheckpointLost> {
    static constexpr const char* type = "CheckpointLost";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(CheckpointLost, attempt), RTRAIN_FIELD(CheckpointLost, why));
};
template <>
struct Fields<CheckpointVerified> {
    static constexpr const char* type = "CheckpointVerified";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(CheckpointVerified, run), RTRAIN_FIELD(CheckpointVerified, directory),
                   RTRAIN_FIELD(CheckpointVerified, wall_ms), RTRAIN_FIELD(CheckpointVerified, faults));
};
template <>
struct Fields<StopMetricReached> {
    static constexpr const char* type = "StopMetricReached";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(StopMetricReached, attempt), RTRAIN_FIELD(StopMetricReached, key),
                   RTRAIN_FIELD(StopMetricReached, value));
};
template <>
struct Fields<UserLimitReached> {
    static constexpr const char* type = "UserLimitReached";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(UserLimitReached, run), RTRAIN_FIELD(UserLimitReached, limit));
};
template <>
struct Fields<QueuesConfigured> {
    static constexpr const char* type = "QueuesConfigured";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(QueuesConfigured, queues), RTRAIN_FIELD(QueuesConfigured, by),
                                            RTRAIN_FIELD(QueuesConfigured, changed_from));
};
template <>
struct Fields<TimePassed> {
    static constexpr const char* type = "TimePassed";
    static constexpr auto list = std::tuple();
};

}  // namespace rtrain::state

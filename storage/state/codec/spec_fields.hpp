// The words of the records' enums, and the fields of a run's spec and of what the run was granted, under the names that
// they have on disk. These names never change: if a member is renamed, its text stays.
#pragma once

#include "scheduler/model/records.hpp"
#include "storage/state/codec/json_fields.hpp"

namespace rtrain::state {

#define RTRAIN_FIELD(type, member) \
    Field { #member, &type::member }

template <>
struct Words<RunState> {
    static std::optional<RunState> parse(std::string_view word) { return run_state(word); }
};
template <>
struct Words<AttemptState> {
    static std::optional<AttemptState> parse(std::string_view word) { return attempt_state(word); }
};
template <>
struct Words<WorkerState> {
    static std::optional<WorkerState> parse(std::string_view word) { return worker_state(word); }
};
template <>
struct Words<NodeState> {
    static std::optional<NodeState> parse(std::string_view word) { return node_state(word); }
};
template <>
struct Words<Strategy> {
    static std::optional<Strategy> parse(std::string_view word) { return strategy(word); }
};

template <>
struct Words<AfterWhat> {
    static std::optional<AfterWhat> parse(std::string_view word) { return after_what(word); }
};
template <>
struct Words<Yielding> {
    static std::optional<Yielding> parse(std::string_view word) { return yielding(word); }
};
template <>
struct Words<RequestReason> {
    static std::optional<RequestReason> parse(std::string_view word) { return request_reason(word); }
};

template <>
struct Fields<AttemptId> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(AttemptId, run), RTRAIN_FIELD(AttemptId, number));
};
template <>
struct Fields<LabelCondition> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(LabelCondition, key), RTRAIN_FIELD(LabelCondition, values),
                                            RTRAIN_FIELD(LabelCondition, negated));
};
template <>
struct Fields<Bundle> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(Bundle, demand), RTRAIN_FIELD(Bundle, selector));
};
template <>
struct Fields<GangRequest> {
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(GangRequest, strategy), RTRAIN_FIELD(GangRequest, bundles),
        RTRAIN_FIELD(GangRequest, topology_label), RTRAIN_FIELD(GangRequest, placed),
        RTRAIN_FIELD(GangRequest, nodes_only), RTRAIN_FIELD(GangRequest, nodes_excluded),
        RTRAIN_FIELD(GangRequest, nodes_avoided), RTRAIN_FIELD(GangRequest, driver), RTRAIN_FIELD(GangRequest, user));
};
template <>
struct Fields<GpuShare> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(GpuShare, device), RTRAIN_FIELD(GpuShare, amount));
};
template <>
struct Fields<Seat> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(Seat, node), RTRAIN_FIELD(Seat, gpus));
};
template <>
struct Fields<FailurePolicy> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(FailurePolicy, max_failures), RTRAIN_FIELD(FailurePolicy, backoff_first),
                   RTRAIN_FIELD(FailurePolicy, backoff_last), RTRAIN_FIELD(FailurePolicy, backoff_set),
                   RTRAIN_FIELD(FailurePolicy, avoid_bad_nodes), RTRAIN_FIELD(FailurePolicy, fail_fast));
};
template <>
struct Fields<Retention> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(Retention, num_to_keep), RTRAIN_FIELD(Retention, score_attribute),
                   RTRAIN_FIELD(Retention, higher_is_better), RTRAIN_FIELD(Retention, latest_until_success));
};
template <>
struct Fields<Elastic> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(Elastic, workers_min), RTRAIN_FIELD(Elastic, grow_after));
};
template <>
struct Fields<After> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(After, run), RTRAIN_FIELD(After, what));
};
template <>
struct Fields<CheckpointRequest> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(CheckpointRequest, reason), RTRAIN_FIELD(CheckpointRequest, why),
                   RTRAIN_FIELD(CheckpointRequest, asked), RTRAIN_FIELD(CheckpointRequest, deadline),
                   RTRAIN_FIELD(CheckpointRequest, workers), Field{"room_for", &CheckpointRequest::preemptor});
};
template <>
struct Fields<QuarantinePolicy> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(QuarantinePolicy, failures), RTRAIN_FIELD(QuarantinePolicy, runs),
                   RTRAIN_FIELD(QuarantinePolicy, window));
};
template <>
struct Fields<NodeFailure> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(NodeFailure, attempt), RTRAIN_FIELD(NodeFailure, at));
};
template <>
struct Fields<RunSpec> {
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(RunSpec, gang), RTRAIN_FIELD(RunSpec, priority), RTRAIN_FIELD(RunSpec, queue),
        RTRAIN_FIELD(RunSpec, failure), RTRAIN_FIELD(RunSpec, retention), RTRAIN_FIELD(RunSpec, wait_for_nodes),
        RTRAIN_FIELD(RunSpec, wall_time_limit), RTRAIN_FIELD(RunSpec, queue_time_limit),
        RTRAIN_FIELD(RunSpec, stop_grace), RTRAIN_FIELD(RunSpec, stop_at), RTRAIN_FIELD(RunSpec, elastic),
        RTRAIN_FIELD(RunSpec, checkpoint_on_drain), RTRAIN_FIELD(RunSpec, after));
};

}  // namespace rtrain::state

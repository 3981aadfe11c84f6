// The fields of every reason, under the names that they have on disk. These names and a reason's `kind` never change.
#pragma once

#include "scheduler/model/reason.hpp"
#include "storage/state/codec/budget_fields.hpp"
#include "storage/state/codec/yielding_fields.hpp"

namespace rtrain::state {

struct NoFields {
    static constexpr auto list = std::tuple();
};
// clang-format off
template <> struct Fields<reasons::None> : NoFields {};
template <> struct Fields<reasons::NoRoom> : NoFields {};
template <> struct Fields<reasons::QueueTime> : NoFields {};
template <> struct Fields<reasons::WallTime> : NoFields {};
template <> struct Fields<reasons::RanksSucceeded> : NoFields {};
// clang-format on
template <>
struct Fields<ExitCause> {
    static constexpr auto list = std::tuple(
        RTRAIN_FIELD(ExitCause, exit_code), RTRAIN_FIELD(ExitCause, signal), RTRAIN_FIELD(ExitCause, out_of_memory),
        RTRAIN_FIELD(ExitCause, stopped_by_us), RTRAIN_FIELD(ExitCause, never_started),
        RTRAIN_FIELD(ExitCause, address_in_use), RTRAIN_FIELD(ExitCause, detail));
};
template <>
struct Fields<NodeReason> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(NodeReason, node), RTRAIN_FIELD(NodeReason, text));
};
template <>
struct Fields<reasons::Text> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(reasons::Text, text));
};
template <>
struct Fields<reasons::NeverFits> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(reasons::NeverFits, nodes));
};
template <>
struct Fields<reasons::QuotaFull> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::QuotaFull, queue), RTRAIN_FIELD(reasons::QuotaFull, resource),
                   RTRAIN_FIELD(reasons::QuotaFull, held), RTRAIN_FIELD(reasons::QuotaFull, requested),
                   RTRAIN_FIELD(reasons::QuotaFull, quota), RTRAIN_FIELD(reasons::QuotaFull, reserved));
};
template <>
struct Fields<reasons::QuotaReclaimed> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::QuotaReclaimed, queue), RTRAIN_FIELD(reasons::QuotaReclaimed, resource));
};
template <>
struct Fields<reasons::QueueUserLimit> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::QueueUserLimit, queue), RTRAIN_FIELD(reasons::QueueUserLimit, resource),
                   RTRAIN_FIELD(reasons::QueueUserLimit, requested), RTRAIN_FIELD(reasons::QueueUserLimit, limit));
};
template <>
struct Fields<reasons::Predecessor> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::Predecessor, name), RTRAIN_FIELD(reasons::Predecessor, until));
};
template <>
struct Fields<reasons::AfterRuns> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(reasons::AfterRuns, runs));
};
template <>
struct Fields<reasons::ArrayLimit> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::ArrayLimit, array), RTRAIN_FIELD(reasons::ArrayLimit, parallel));
};
template <>
struct Fields<reasons::PredecessorEnded> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::PredecessorEnded, name), RTRAIN_FIELD(reasons::PredecessorEnded, state));
};
template <>
struct Fields<reasons::StoppedBy> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::StoppedBy, user), RTRAIN_FIELD(reasons::StoppedBy, cause));
};
template <>
struct Fields<reasons::FailuresSpent> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::FailuresSpent, failures), RTRAIN_FIELD(reasons::FailuresSpent, max_failures),
                   RTRAIN_FIELD(reasons::FailuresSpent, cause));
};
template <>
struct Fields<reasons::UserLimit> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::UserLimit, limit), RTRAIN_FIELD(reasons::UserLimit, cause));
};
template <>
struct Fields<reasons::FailFast> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(reasons::FailFast, cause));
};
template <>
struct Fields<reasons::StartsFailed> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::StartsFailed, attempts), RTRAIN_FIELD(reasons::StartsFailed, prepared),
                   RTRAIN_FIELD(reasons::StartsFailed, cause));
};
template <>
struct Fields<reasons::NodesLost> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::NodesLost, attempts), RTRAIN_FIELD(reasons::NodesLost, cause));
};
template <>
struct Fields<reasons::RankFailed> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::RankFailed, rank), RTRAIN_FIELD(reasons::RankFailed, node),
                   RTRAIN_FIELD(reasons::RankFailed, exit));
};
template <>
struct Fields<reasons::NotPrepared> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::NotPrepared, node), RTRAIN_FIELD(reasons::NotPrepared, why));
};
template <>
struct Fields<reasons::EndUnseen> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::EndUnseen, node), RTRAIN_FIELD(reasons::EndUnseen, ranks));
};
template <>
struct Fields<reasons::NodeLost> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(reasons::NodeLost, node), RTRAIN_FIELD(reasons::NodeLost, why),
                                            RTRAIN_FIELD(reasons::NodeLost, cause));
};
template <>
struct Fields<reasons::NodeLeft> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::NodeLeft, node), RTRAIN_FIELD(reasons::NodeLeft, cause));
};
template <>
struct Fields<reasons::NodeSmaller> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(reasons::NodeSmaller, node));
};
template <>
struct Fields<reasons::StopMetric> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::StopMetric, key), RTRAIN_FIELD(reasons::StopMetric, value));
};
template <>
struct Fields<reasons::GivenUp> {
    static constexpr auto list = std::tuple();
};
template <>
struct Fields<reasons::NodeForgot> {
    static constexpr auto list = std::tuple();
};
template <>
struct Fields<reasons::RequestedBy> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(reasons::RequestedBy, user));
};
template <>
struct Fields<reasons::NodeDrains> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::NodeDrains, node), RTRAIN_FIELD(reasons::NodeDrains, cause));
};
template <>
struct Fields<reasons::ResizeRequested> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::ResizeRequested, user), RTRAIN_FIELD(reasons::ResizeRequested, workers),
                   RTRAIN_FIELD(reasons::ResizeRequested, instead_of));
};
template <>
struct Fields<reasons::RoomToGrow> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::RoomToGrow, workers), RTRAIN_FIELD(reasons::RoomToGrow, instead_of));
};
template <>
struct Fields<reasons::DrainedBy> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::DrainedBy, user), RTRAIN_FIELD(reasons::DrainedBy, text),
                   RTRAIN_FIELD(reasons::DrainedBy, by_itself), RTRAIN_FIELD(reasons::DrainedBy, by_disk),
                   RTRAIN_FIELD(reasons::DrainedBy, quarantined));
};
template <>
struct Fields<reasons::Silent> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(reasons::Silent, why));
};
template <>
struct Fields<reasons::Evidence> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::Evidence, run), RTRAIN_FIELD(reasons::Evidence, attempt),
                   RTRAIN_FIELD(reasons::Evidence, went_on), RTRAIN_FIELD(reasons::Evidence, cause));
};
template <>
struct Fields<reasons::Quarantined> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::Quarantined, attempts), RTRAIN_FIELD(reasons::Quarantined, runs),
                   RTRAIN_FIELD(reasons::Quarantined, window), RTRAIN_FIELD(reasons::Quarantined, evidence));
};

}  // namespace rtrain::state

// The fields of budgets of GPU hours, under the names that they have on disk. These names never change.
#pragma once

#include "scheduler/model/reason.hpp"
#include "storage/state/codec/spec_fields.hpp"

namespace rtrain::state {

template <>
struct Fields<reasons::BudgetUsed> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::BudgetUsed, queue), RTRAIN_FIELD(reasons::BudgetUsed, of_user),
                   RTRAIN_FIELD(reasons::BudgetUsed, gpu_hours), RTRAIN_FIELD(reasons::BudgetUsed, window));
};
template <>
struct Fields<GpuTime> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(GpuTime, from), RTRAIN_FIELD(GpuTime, until), RTRAIN_FIELD(GpuTime, gpu_ms));
};
template <>
struct Fields<BudgetUse> {
    static constexpr const char* type = "BudgetUse";
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(BudgetUse, queue), RTRAIN_FIELD(BudgetUse, user), RTRAIN_FIELD(BudgetUse, at),
                   RTRAIN_FIELD(BudgetUse, held), RTRAIN_FIELD(BudgetUse, used));
};
template <>
struct Fields<EraseBudgetUse> {
    static constexpr const char* type = "EraseBudgetUse";
    static constexpr auto list = std::tuple(RTRAIN_FIELD(EraseBudgetUse, queue), RTRAIN_FIELD(EraseBudgetUse, user));
};

}  // namespace rtrain::state

// The fields of the reasons of runs that end for others, under the names that they have on disk. These names never
// change.
#pragma once

#include "scheduler/model/reason.hpp"
#include "storage/state/codec/spec_fields.hpp"

namespace rtrain::state {

template <>
struct Fields<reasons::PreemptedBy> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::PreemptedBy, run), RTRAIN_FIELD(reasons::PreemptedBy, priority),
                   RTRAIN_FIELD(reasons::PreemptedBy, queue));
};
template <>
struct Fields<reasons::YieldedTo> {
    static constexpr auto list =
        std::tuple(RTRAIN_FIELD(reasons::YieldedTo, run), RTRAIN_FIELD(reasons::YieldedTo, user),
                   RTRAIN_FIELD(reasons::YieldedTo, queue));
};
template <>
struct Fields<reasons::OwnerEnded> {
    static constexpr auto list = std::tuple(RTRAIN_FIELD(reasons::OwnerEnded, owner));
};

}  // namespace rtrain::state

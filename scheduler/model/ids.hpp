// Identifiers. Ids of different kinds never mix. All are ordered, so every tie is broken the same way.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace rtrain {

template <class Tag, class Value>
struct Id {
    Value value{};
    auto operator<=>(const Id&) const = default;
};

using NodeId = Id<struct NodeTag, std::string>;      // the node's name, unique in its cluster
using RunId = Id<struct RunTag, std::uint64_t>;      // a counter of the cluster; people see run_id_text()
using EventId = Id<struct EventTag, std::uint64_t>;  // position in the journal, from 1
using Rank = Id<struct RankTag, std::uint32_t>;      // world rank of a worker

// One attempt of a run. Numbers start at 1, only grow, and are never reused: a message of an earlier attempt cannot be
// taken for one of a later attempt.
struct AttemptId {
    RunId run;
    std::uint32_t number = 0;
    auto operator<=>(const AttemptId&) const = default;
};

// Time in the core: milliseconds that never go back. The shell starts it at the larger of the last persisted time and
// the wall clock, and advances it by CLOCK_BOOTTIME.
struct Time {
    std::int64_t ms = 0;
    auto operator<=>(const Time&) const = default;
};
struct Duration {
    std::int64_t ms = 0;
    auto operator<=>(const Duration&) const = default;
};
constexpr Time operator+(Time t, Duration d) { return {t.ms + d.ms}; }
constexpr Duration operator-(Time a, Time b) { return {a.ms - b.ms}; }

// "c0ffee-17": the first six characters of the cluster id, and the counter.
inline std::string run_id_text(const std::string& cluster_id, RunId run) {
    return cluster_id.substr(0, 6) + "-" + std::to_string(run.value);
}

}  // namespace rtrain

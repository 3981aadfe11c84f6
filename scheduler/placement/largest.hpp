// Computes how many workers of a run fit. A gang of elastic size is one shape: the first n bundles of its spec. The
// result is the largest n that can be placed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/model/records.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain {

inline constexpr std::int32_t any_priority = INT32_MIN;

struct Sized {
    std::uint32_t workers = 0;  // number of bundles of the request
    PlacementAnswer answer;
};
// Returns the largest allowed gang of min..max workers that can be placed now. If there is none, returns the answer for
// the smallest.
// Checks the quota. Invariant: if n workers are allowed, so are fewer. Null: any number.
using Allowed = std::function<bool(std::uint32_t workers)>;
Sized place_largest(const std::vector<NodeView>& nodes, const GangRequest& largest, std::uint32_t workers_min,
                    const Allowed& allowed = nullptr);

// Returns where a job would be placed now, with reasons. An elastic job gets as many workers as fit, at least its
// smallest number.
std::uint32_t workers_planned(const std::vector<NodeView>& nodes, const RunSpec& spec);
PlacementAnswer planned(const std::vector<NodeView>& nodes, const RunSpec& spec);

// Changes `nodes` as if this attempt of `run` had ended.
void give_back(std::vector<NodeView>& nodes, const Run& run, const Attempt& attempt);

namespace core {
// true if the empty node could hold any bundle of the gang
bool could_use(const NodeView& node, const GangRequest& gang);
}  // namespace core
}  // namespace rtrain

// How many workers of a run fit. A gang of elastic size is one shape: the first n bundles of its spec, where n is the
// largest that places.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/model/records.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain {

inline constexpr std::int32_t any_priority = INT32_MIN;

struct Sized {
    std::uint32_t workers = 0;  // so many bundles were asked for
    PlacementAnswer answer;
};
// The largest gang of min..max workers that places now and is allowed; when none is, the answer about the smallest.
using Allowed = std::function<bool(std::uint32_t workers)>;  // quota: if n workers are, so are fewer; null: any number
Sized place_largest(const std::vector<NodeView>& nodes, const GangRequest& largest, std::uint32_t workers_min,
                    const Allowed& allowed = nullptr);

// Where a job would go now, with reasons: an elastic one with as many workers as fit, at least its smallest number.
std::uint32_t workers_planned(const std::vector<NodeView>& nodes, const RunSpec& spec);
PlacementAnswer planned(const std::vector<NodeView>& nodes, const RunSpec& spec);

// Changes `nodes` to what they would be if this attempt of `run` had ended.
void give_back(std::vector<NodeView>& nodes, const Run& run, const Attempt& attempt);

namespace core {
bool could_use(const NodeView& node, const GangRequest& gang);  // any bundle of it, were the node empty
}
}  // namespace rtrain

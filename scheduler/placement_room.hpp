// What one node still has while a gang is being placed: inside of placement only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/placement.hpp"

namespace rtrain::placing {

// The words of an amount of GPU: a share of one device, or whole untouched devices.
bool zero(const Resources& demand);
bool fits_gpus(const std::vector<Amount>& gpus, Amount demand);

// Fractions go to the fullest device that takes them, whole GPUs to untouched devices, lowest index first.
std::optional<std::vector<GpuShare>> take_gpus(std::vector<Amount>& gpus, Amount demand);

// How many bundles of this demand fit at the same time, at most `limit`.
std::uint32_t slots(const Resources& free, const std::vector<Amount>& gpus, const Resources& demand,
                    std::uint32_t limit);

struct Room {
    const NodeView* node = nullptr;
    Resources free;
    std::vector<Amount> gpus;
    std::uint32_t seated = 0;  // bundles of this gang, the already placed ones too

    bool fits(const Bundle& bundle) const;
    std::vector<GpuShare> take(const Bundle& bundle);  // only when it fits
};

enum class Capacity { free, whole };  // what is free now, or the node as if everything on it had ended

// A node that hard constraints leave in, and what it has.
struct Candidate {
    const NodeView* node = nullptr;
    const Resources* free = nullptr;
    std::vector<Amount> gpus;
};

// One gang on a set of candidates; none: no assignment was found. `proved` false: the search gave up.
struct Attempted {
    std::optional<Seats> seats;
    bool proved = true;
};
Attempted place_one_shape(const std::vector<Candidate>& candidates, const GangRequest& request);
Attempted place_mixed(const std::vector<Candidate>& candidates, const GangRequest& request);

bool one_shape(const GangRequest& request);
std::optional<std::string> invalid_because(const std::vector<NodeView>& nodes, const GangRequest& request);
bool allowed(const NodeView& node, const GangRequest& request);  // state, nodes_only, nodes_excluded, topology key
// Ready nodes that hard constraints leave in.
std::vector<Candidate> candidates(const std::vector<NodeView>& nodes, const GangRequest& request, Capacity capacity);
Attempted place_on(const std::vector<Candidate>& candidates, const GangRequest& request);

}  // namespace rtrain::placing

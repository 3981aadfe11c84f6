// What one node still has while a gang is being placed: inside of placement only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/model/limits.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain::placing {

// The words of an amount of GPU: a share of one device, or whole untouched devices.
std::uint64_t gpu_slots(const std::vector<Amount>& gpus, Amount demand);  // demands of this amount, which is not 0
bool fits_gpus(const std::vector<Amount>& gpus, Amount demand);

// Fractions go to the fullest device that takes them, whole GPUs to untouched devices, lowest index first.
std::optional<std::vector<GpuShare>> take_gpus(std::vector<Amount>& gpus, Amount demand);

// How many bundles of this demand fit at the same time, at most `limit`.
std::uint32_t slots(const Resources& free, const std::vector<Amount>& gpus, const Resources& demand,
                    std::uint32_t limit);

// How many would fit if nothing else were on the node.
std::uint32_t slots_when_empty(const NodeView& node, const Resources& demand);

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
    std::uint32_t seated = 0;                                     // bundles of this gang that stay here (repair)
    std::uint32_t zero_bundles_left = limits::zero_bundles_most;  // of the gang's user
};

// What is left to place of a gang. Zero bundles reserve nothing and need no node of their own.
struct Wanted {
    const GangRequest& request;
    std::vector<std::uint32_t> missing;  // bundles that need room, by index
    std::vector<std::uint32_t> zeros;    // missing ones that need none

    const Bundle& bundle(std::size_t nth) const { return request.bundles[missing[nth]]; }
    const Bundle& shape() const { return bundle(0); }
};
Wanted wanted_of(const GangRequest& request);
bool one_shape(const Wanted& wanted);  // all that is missing is alike

// One gang on a set of candidates, which are in order of id. No seats: no assignment was found. `proved` false: the
// search gave up. Seats of `placed` and of zero bundles are left empty.
struct Attempted {
    std::optional<Seats> seats;
    bool proved = true;
};
Attempted place_one_shape(const std::vector<Candidate>& candidates, const Wanted& wanted);
Attempted place_mixed(const std::vector<Candidate>& candidates, const Wanted& wanted);     // picks one of these:
Attempted place_together(const std::vector<Candidate>& candidates, const Wanted& wanted);  // STRICT_PACK
Attempted place_apart(const std::vector<Candidate>& candidates, const Wanted& wanted);     // STRICT_SPREAD
// PACK and SPREAD of up to 8 bundles on up to 64 unlike nodes: the best of all assignments. None: more than that.
std::optional<Attempted> place_exactly(const std::vector<Candidate>& candidates, const Wanted& wanted);
// PACK and SPREAD of bundles that differ in their labels alone, exact. None: they ask for different amounts.
std::optional<Attempted> place_by_labels(const std::vector<Candidate>& candidates, const Wanted& wanted);
Attempted place_bounded(const std::vector<Candidate>& candidates, const Wanted& wanted);  // any size, with a budget

// Devices for several demands on one node, each demand's shares; exact while the budget of steps lasts.
struct Shared {
    std::optional<std::vector<std::vector<GpuShare>>> shares;
    bool proved = true;
};
Shared share_devices(const std::vector<Amount>& gpus, const std::vector<Amount>& demands);
// All bundles (indices into the request) on this one candidate.
Shared seat_together(const Candidate& candidate, const GangRequest& request, const std::vector<std::uint32_t>& bundles);

// The order in which a strategy likes nodes: fuller first for PACK, emptier first for SPREAD, then id.
Amount gpus_free(const std::vector<Amount>& gpus);
bool packs(Strategy strategy);

// What quotas allow: now, and once others have ended. Without a function they allow every gang.
struct QuotaRoom {
    std::function<bool(const GangRequest&)> now{}, ever{};
};
// "would start now with scaling.workers=8"; empty: no single change does. Tried by placing the changed gang.
std::string nearest_change(const std::vector<NodeView>& nodes, const GangRequest& request, Verdict verdict,
                           const QuotaRoom& quotas = {});
// For who must not wait: three reasons, and a nearest change only where few nodes and bundles make it quick to look
// for.
PlacementAnswer explain_briefly(const std::vector<NodeView>& nodes, const GangRequest& request,
                                const QuotaRoom& quotas = {});
std::optional<std::string> invalid_because(const std::vector<NodeView>& nodes, const GangRequest& request);
bool allowed(const NodeView& node, const GangRequest& request);  // state, nodes_only, nodes_excluded, topology key
// Whether the node, with `room` and `gpus` free, takes at least one bundle of the gang.
bool takes_one(const NodeView& node, const GangRequest& gang, const Resources& room, const std::vector<Amount>& gpus);
// Counts one zero bundle of this user on the node less.
void end_zero_bundle(NodeView& node, const std::string& user);
// Returns the nodes of `seats` that host bundles with resources.
std::set<NodeId> nodes_used(const GangRequest& request, const Seats& seats);
// Seats the gang's zero bundles (zero_bundles.cpp). Returns false if no node takes one of them: by its labels, or
// because the gang's user has as many there as a user may have.
bool seat_zero_bundles(std::vector<Candidate>& candidates, const Wanted& wanted, Seats& seats);
// For STRICT_PACK: removes the nodes that cannot take all the gang's zero bundles together.
void keep_those_for_all_zero_bundles(std::vector<Candidate>& candidates, const Wanted& wanted);
// An order of selectors, for maps.
bool selector_before(const LabelSelector& a, const LabelSelector& b);
// Returns how many more zero bundles of this user the node takes now.
std::uint32_t zero_bundles_left(const NodeView& node, const std::string& user);
// Ready nodes that hard constraints leave in, by id.
std::vector<Candidate> candidates(const std::vector<NodeView>& nodes, const GangRequest& request, Capacity capacity);

}  // namespace rtrain::placing

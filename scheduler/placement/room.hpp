// The remaining room of one node while a gang is placed. Used inside of placement only.
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

// An amount of GPU is a fraction of one device, or a number of whole untouched devices.
// number of such demands that fit; `demand` is not 0
std::uint64_t gpu_slots(const std::vector<Amount>& gpus, Amount demand);
bool fits_gpus(const std::vector<Amount>& gpus, Amount demand);

// Fractions go to the fullest device that takes them, whole GPUs to untouched devices, lowest index first.
std::optional<std::vector<GpuShare>> take_gpus(std::vector<Amount>& gpus, Amount demand);

// Returns how many bundles of this demand fit on the node together, at most `limit`.
std::uint32_t slots(const Resources& free, const std::vector<Amount>& gpus, const Resources& demand,
                    std::uint32_t limit);

// Returns how many bundles of this demand the empty node would hold.
std::uint32_t slots_when_empty(const NodeView& node, const Resources& demand);

struct Room {
    const NodeView* node = nullptr;
    Resources free;
    std::vector<Amount> gpus;
    std::uint32_t seated = 0;  // bundles of this gang on the node, including those placed before

    bool fits(const Bundle& bundle) const;
    std::vector<GpuShare> take(const Bundle& bundle);  // requires that the bundle fits
};

enum class Capacity { free, whole };  // `free`: the free amounts of the nodes; `whole`: those of empty nodes

// A node that satisfies the hard constraints, with its free amounts.
struct Candidate {
    const NodeView* node = nullptr;
    const Resources* free = nullptr;
    std::vector<Amount> gpus;
    std::uint32_t seated = 0;  // bundles of this gang that stay on the node (repair)
    // number of bundles without resources that the gang's user may still have on this node
    std::uint32_t zero_bundles_left = limits::zero_bundles_most;
};

// The bundles of a gang that are still to be placed. Zero bundles reserve nothing and need no node of their own.
struct Wanted {
    const GangRequest& request;
    std::vector<std::uint32_t> missing;  // indices of the bundles that demand resources
    std::vector<std::uint32_t> zeros;    // indices of the bundles that demand none

    const Bundle& bundle(std::size_t nth) const { return request.bundles[missing[nth]]; }
    const Bundle& shape() const { return bundle(0); }
};
Wanted wanted_of(const GangRequest& request);
bool one_shape(const Wanted& wanted);  // true if all missing bundles are equal

// The result for one gang on candidates that are sorted by id. `seats` is nullopt if no assignment was found. `proved`
// is false if the search was given up. Seats of `placed` and of zero bundles are left empty.
struct Attempted {
    std::optional<Seats> seats;
    bool proved = true;
};
Attempted place_one_shape(const std::vector<Candidate>& candidates, const Wanted& wanted);
// Chooses one of the functions below by the strategy and the bundles.
Attempted place_mixed(const std::vector<Candidate>& candidates, const Wanted& wanted);
Attempted place_together(const std::vector<Candidate>& candidates, const Wanted& wanted);  // places STRICT_PACK gangs
Attempted place_apart(const std::vector<Candidate>& candidates, const Wanted& wanted);     // places STRICT_SPREAD gangs
// PACK and SPREAD of up to 8 bundles on up to 64 unlike nodes: the best of all assignments. Returns nullopt for more.
std::optional<Attempted> place_exactly(const std::vector<Candidate>& candidates, const Wanted& wanted);
// PACK and SPREAD of bundles that differ in their labels only, exactly. Returns nullopt for different demands.
std::optional<Attempted> place_by_labels(const std::vector<Candidate>& candidates, const Wanted& wanted);
// PACK and SPREAD of any size. The search is bounded, so `proved` may be false.
Attempted place_bounded(const std::vector<Candidate>& candidates, const Wanted& wanted);

// The shares of each demand on the devices of one node. Exact while the budget of steps lasts.
struct Shared {
    std::optional<std::vector<std::vector<GpuShare>>> shares;
    bool proved = true;
};
Shared share_devices(const std::vector<Amount>& gpus, const std::vector<Amount>& demands);
// Places all bundles (indices into the request) on this candidate.
Shared seat_together(const Candidate& candidate, const GangRequest& request, const std::vector<std::uint32_t>& bundles);

// The strategy's order of preference: fuller nodes first for PACK, emptier first for SPREAD, then by id.
Amount gpus_free(const std::vector<Amount>& gpus);
bool packs(Strategy strategy);

// Checks gangs against quotas: now, and after other runs have ended. An empty function allows every gang.
struct QuotaRoom {
    std::function<bool(const GangRequest&)> now{}, ever{};
};
// Returns "would start now with scaling.workers=8"; empty if no single change suffices. Tries each change by placing
// the changed gang.
std::string nearest_change(const std::vector<NodeView>& nodes, const GangRequest& request, Verdict verdict,
                           const QuotaRoom& quotas = {});
// For callers that must not wait: three reasons, and a nearest change only if few nodes and bundles make the search
// quick.
PlacementAnswer explain_briefly(const std::vector<NodeView>& nodes, const GangRequest& request,
                                const QuotaRoom& quotas = {});
std::optional<std::string> invalid_because(const std::vector<NodeView>& nodes, const GangRequest& request);
bool allowed(const NodeView& node, const GangRequest& request);  // state, nodes_only, nodes_excluded, topology key
// Returns true if the node, with `room` and `gpus` free, takes at least one bundle of the gang.
bool takes_one(const NodeView& node, const GangRequest& gang, const Resources& room, const std::vector<Amount>& gpus);
// Counts one bundle without resources less for this user on the node.
void end_zero_bundle(NodeView& node, const std::string& user);
// Returns the nodes of `seats` that host bundles with resources.
std::set<NodeId> nodes_used(const GangRequest& request, const Seats& seats);
// Seats the gang's zero bundles (zero_bundles.cpp). Returns false if no node takes one of them: by its labels, or
// because the gang's user has as many there as a user may have.
bool seat_zero_bundles(std::vector<Candidate>& candidates, const Wanted& wanted, Seats& seats);
// For STRICT_PACK: removes the nodes that cannot take all the gang's zero bundles together.
void keep_those_for_all_zero_bundles(std::vector<Candidate>& candidates, const Wanted& wanted);
// An arbitrary total order of label selectors, for use as keys of maps.
bool selector_before(const LabelSelector& a, const LabelSelector& b);
// Returns how many more zero bundles of this user the node takes now.
std::uint32_t zero_bundles_left(const NodeView& node, const std::string& user);
// Returns the ready nodes that satisfy the hard constraints, sorted by id.
std::vector<Candidate> candidates(const std::vector<NodeView>& nodes, const GangRequest& request, Capacity capacity);

}  // namespace rtrain::placing

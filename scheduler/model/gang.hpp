// A gang that asks for room, what placement sees of a node, and the answer: plain values.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/model/ids.hpp"
#include "scheduler/model/resources.hpp"

namespace rtrain {

enum class Strategy { pack, spread, strict_pack, strict_spread };
enum class NodeState { ready, draining, quarantined, lost };
enum class Verdict { feasible_now, pending, infeasible, invalid };

struct Bundle {
    Resources demand;
    LabelSelector selector;
    bool operator==(const Bundle&) const = default;
};

struct GangRequest {
    Strategy strategy = Strategy::pack;
    std::vector<Bundle> bundles;  // index = rank before ranks are made contiguous per node
    std::optional<std::string> topology_label;
    std::map<std::uint32_t, NodeId> placed;  // repair: these stay where they are
    std::set<NodeId> nodes_only;             // empty: any node
    std::set<NodeId> nodes_excluded;         // hard
    std::vector<NodeId> nodes_avoided;       // soft: used when nothing else fits
    bool driver = false;                     // a program that submits other runs
    std::string user{};                      // whose zero bundles are counted on each node; empty: they are not counted
    bool operator==(const GangRequest&) const = default;
};

// What placement sees of a node.
struct NodeView {
    NodeId id;
    NodeState state = NodeState::ready;
    Labels labels;
    Resources total;                                      // without GPU
    Resources free;                                       // without GPU
    std::vector<Amount> gpus_free;                        // per device; a whole device is units(1)
    std::map<std::string, std::uint32_t> zero_bundles{};  // by user: workers on the node that hold no resource
    bool operator==(const NodeView&) const = default;
};

struct GpuShare {
    std::uint32_t device = 0;
    Amount amount;
    bool operator==(const GpuShare&) const = default;
};
struct Seat {  // where one bundle sits
    NodeId node;
    std::vector<GpuShare> gpus;
    bool operator==(const Seat&) const = default;
};
using Seats = std::vector<Seat>;  // index = bundle; ranks are contiguous per node, rank 0's node first

struct NodeReason {
    NodeId node;
    std::string text;  // "3 GPUs free, bundle needs 4"
    bool operator==(const NodeReason&) const = default;
};

struct PlacementAnswer {
    Verdict verdict = Verdict::invalid;
    Seats seats;                      // only when feasible_now
    std::vector<NodeReason> reasons;  // only from explain_placement
    std::string nearest_change;       // "would start now with scaling.workers=8"; may be empty
    bool proved = true;               // false: a bounded search gave up
};

}  // namespace rtrain

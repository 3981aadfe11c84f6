// The request of a gang, a node as placement sees it, and the answer: plain values.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
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
    std::vector<Bundle> bundles;  // index: the rank, before ranks are made contiguous per node
    std::optional<std::string> topology_label;
    // used when a part of a gang is replaced: bundles that stay, and their nodes
    std::map<std::uint32_t, NodeId> placed;
    std::set<NodeId> nodes_only;        // the only nodes that the gang may use; empty: any node
    std::set<NodeId> nodes_excluded;    // nodes that the gang must not use
    std::vector<NodeId> nodes_avoided;  // nodes that the gang uses only if no other node fits
    bool driver = false;                // true: a program that submits other runs
    std::string user{};  // the user whose zero bundles are counted on each node; empty: they are not counted
    bool operator==(const GangRequest&) const = default;
};

// A node as placement sees it.
struct NodeView {
    NodeId id;
    NodeState state = NodeState::ready;
    Labels labels;
    Resources total;                // amounts other than GPUs
    Resources free;                 // amounts other than GPUs
    std::vector<Amount> gpus_free;  // per device; a whole device is units(1)
    // key: the user; value: number of workers on the node without resources
    std::map<std::string, std::uint32_t> zero_bundles{};
    bool awaited = false;  // the node is in use and has not registered since the head's start; `state` is draining
    bool operator==(const NodeView&) const = default;
};

struct GpuShare {
    std::uint32_t device = 0;
    Amount amount;
    bool operator==(const GpuShare&) const = default;
};
struct Seat {  // the place of one bundle
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
    Seats seats;                      // set only if the verdict is feasible_now
    std::vector<NodeReason> reasons;  // set only by explain_placement
    std::string nearest_change;       // "would start now with scaling.workers=8"; may be empty
    bool proved = true;               // false: a bounded search ended before it had a proof
};

// ---- states, and the words for them
enum class RunState { queued, starting, running, recovering, resizing, stopping, succeeded, failed, stopped };
enum class AttemptState { placed, starting, running, stopping, succeeded, failed, stopped, lost };
enum class WorkerState { placed, running, exited };

constexpr bool terminal(RunState s) {
    return s == RunState::succeeded || s == RunState::failed || s == RunState::stopped;
}
constexpr bool terminal(AttemptState s) {
    return s == AttemptState::succeeded || s == AttemptState::failed || s == AttemptState::stopped ||
           s == AttemptState::lost;
}
const char* to_text(RunState);  // "QUEUED" and so on: the names that all output formats use
const char* to_text(AttemptState);
const char* to_text(WorkerState);
const char* to_text(NodeState);
const char* to_text(Strategy);  // "PACK" ...
const char* to_text(Verdict);   // "feasible now" ...
std::optional<RunState> run_state(std::string_view);
std::optional<AttemptState> attempt_state(std::string_view);
std::optional<WorkerState> worker_state(std::string_view);
std::optional<NodeState> node_state(std::string_view);
std::optional<Strategy> strategy(std::string_view);

}  // namespace rtrain

// Decides how many machines a cluster should have: which to order, and which to release. Pure; the shell runs the
// commands.
//
//   observe ─► question ─► nodes_needed (beside the loop) ─► autoscale_step ─► order | drain | let go
//
// Only nodes with the label `autoscale_label` are released; nodes that people added stay. A node is released in two
// steps. It is drained, so that nothing further is placed on it. Then its machine is given back if the node is still
// empty. A machine that was ordered by name and never joined is given back by that name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain {

// has the value "true" on nodes that a command has ordered
inline constexpr const char* autoscale_label = "rtrain.autoscale";
// the user who drains nodes for the autoscaler; no person can have this name
inline constexpr const char* autoscale_user = "the autoscaler";

struct NodeOffer {    // the resources of each ordered machine
    Resources total;  // amounts other than GPUs
    std::uint32_t gpus = 0;
    Labels labels;
    bool operator==(const NodeOffer&) const = default;
};
struct AutoscalePolicy {
    NodeOffer node;
    std::uint32_t max = 0;  // the most nodes with the label, including those that are ordered
    Duration idle{600'000}, cooldown{60'000}, timeout{900'000};
    bool operator==(const AutoscalePolicy&) const = default;
};
struct Ordered {
    std::uint32_t nodes = 0;
    Time until;                // nodes that have not joined by this time are given up
    std::set<NodeId> names{};  // names from `provision` of nodes that have not joined; at most `nodes` of them
    bool operator==(const Ordered&) const = default;
};
struct Unjoined {  // a machine that was ordered by name and given up
    Time after;    // the machine is given back at this time or later
    std::uint32_t failures = 0;
    bool operator==(const Unjoined&) const = default;
};
struct AutoscaleState {
    std::vector<Ordered> ordered;         // orders whose nodes have not all joined yet; the oldest first
    std::map<NodeId, Unjoined> unjoined;  // machines that are to be given back
    std::set<NodeId> present;             // labelled nodes at the last check
    std::map<NodeId, Time> idle_since;
    // runs that no permitted number of nodes can hold; value: the time until which that is assumed
    std::map<RunId, Time> hopeless;
    Time order_after, release_after;  // no command to order, or to release, runs before this time
    std::uint32_t failures = 0;       // number of orders that failed since all ordered nodes had joined
    bool operator==(const AutoscaleState&) const = default;
};

std::uint32_t count_ordered(const AutoscaleState& state);  // returns the number of nodes that may still join
// Returns how many more nodes may be ordered.
std::uint32_t room_of(const AutoscalePolicy& policy, const AutoscaleState& state);

// Bounds the times of orders that an earlier head has stored, because the wall clock may have been set meanwhile. An
// ordered machine has a minute to register with the new head, and at most as long as if it were ordered now.
void restored(const AutoscalePolicy& policy, AutoscaleState& state, Time now);

// Removes nodes that have joined from the orders, and stores which nodes are idle. Returns the number of nodes that
// were given up now.
std::uint32_t observe(const Cluster& cluster, const AutoscalePolicy& policy, AutoscaleState& state, Time now);

struct WaitingGang {
    RunId run;
    GangRequest gang;
    // key: a node; value: the free amounts that the run's reservation withholds from later runs
    std::map<NodeId, Held> withheld{};
};
struct AutoscaleQuestion {  // all data that the question needs, as copies, because another thread answers it
    // The ready nodes with room for some waiting bundle. Seats that are reserved for runs outside of `waiting` count as
    // taken.
    std::vector<NodeView> nodes;
    std::vector<WaitingGang> waiting;  // sorted as in the queue; without runs that a quota excludes
    NodeOffer offer;
    // `ordered`: nodes that have not joined yet; `room`: how many more nodes may be ordered; `max`: the most nodes
    std::uint32_t ordered = 0, room = 0, max = 0;
};
AutoscaleQuestion autoscale_question(const Cluster& cluster, const AutoscalePolicy& policy,
                                     const AutoscaleState& state);
struct NodesNeeded {
    std::uint32_t nodes = 0;   // number of nodes to order, beside those that are present or ordered already
    std::set<NodeId> used;     // present nodes that waiting runs are about to use, and that therefore stay
    std::set<RunId> hopeless;  // runs that would not fit even with `max` new nodes
    bool operator==(const NodesNeeded&) const = default;
};
NodesNeeded nodes_needed(const AutoscaleQuestion& question);
// Records the runs that no permitted number of nodes can hold. They are skipped for a while, so that later runs are
// considered however many such runs there are.
void note_hopeless(AutoscaleState& state, const NodesNeeded& needed, Time now);

struct AutoscaleStep {
    std::uint32_t order = 0;
    std::optional<NodeId> drain, release;
    std::vector<NodeId> undrain;
    bool operator==(const AutoscaleStep&) const = default;
};
AutoscaleStep autoscale_step(const Cluster& cluster, const AutoscalePolicy& policy, const AutoscaleState& state,
                             const NodesNeeded& needed, Time now);

// Returns true if the machine of a node may be given back now: the autoscaler's drain still holds and the node has no
// work, or the machine never joined and no node has its name.
bool may_release(const Cluster& cluster, const AutoscaleState& state, const NodeId& node);
bool drained_by_autoscaler(const Node& node);

enum class CommandResult {
    done,
    failed,   // the command has done nothing
    not_now,  // the command asks to release this node at another time
    ended     // the command was ended at its timeout, so its effects are unknown
};
void order_begins(const AutoscalePolicy& policy, AutoscaleState& state, std::uint32_t nodes, Time now);
// Records the end of a command that orders machines. `names`: the machines that the command has named. At least that
// many count as ordered, even if the command failed.
void order_ended(const AutoscalePolicy& policy, AutoscaleState& state, CommandResult result,
                 const std::set<NodeId>& names, Time now);
void release_ended(const AutoscalePolicy& policy, AutoscaleState& state, const NodeId& node, CommandResult result,
                   Time now);

}  // namespace rtrain

// How many machines a cluster should have: which to order, which to let go. Pure; the shell runs the commands.
//
//   observe ─► question ─► nodes_needed (beside the loop) ─► autoscale_step ─► order | drain | let go
//
// Only nodes with the label `autoscale_label` are ever let go: those of people stay. A node is let go in two steps. It
// is drained, so that nothing is placed on it any more; then, if it is empty still, its machine is given back.
// A machine that was ordered by name and never joined is given back by that name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain {

inline constexpr const char* autoscale_label = "rtrain.autoscale";  // = "true", of nodes that a command has ordered
inline constexpr const char* autoscale_user = "the autoscaler";     // who drains them: no name that a person can have

struct NodeOffer {    // what each ordered machine brings
    Resources total;  // without GPU
    std::uint32_t gpus = 0;
    Labels labels;
    bool operator==(const NodeOffer&) const = default;
};
struct AutoscalePolicy {
    NodeOffer node;
    std::uint32_t max = 0;  // labelled nodes, with those that were ordered
    Duration idle{600'000}, cooldown{60'000}, timeout{900'000};
    bool operator==(const AutoscalePolicy&) const = default;
};
struct Ordered {
    std::uint32_t nodes = 0;
    Time until;                // then those that have not joined are given up
    std::set<NodeId> names{};  // of those that `provision` has named, and that have not joined: at most `nodes`
    bool operator==(const Ordered&) const = default;
};
struct Unjoined {  // a machine that was ordered by name and given up
    Time after;    // it is given back then
    std::uint32_t failures = 0;
    bool operator==(const Unjoined&) const = default;
};
struct AutoscaleState {
    std::vector<Ordered> ordered;         // and not joined yet, the oldest first
    std::map<NodeId, Unjoined> unjoined;  // their machines are to be given back
    std::set<NodeId> present;             // labelled nodes, when they were last looked at
    std::map<NodeId, Time> idle_since;
    std::map<RunId, Time> hopeless;   // runs that no number of nodes would hold, and until when this is believed
    Time order_after, release_after;  // pauses after a command
    std::uint32_t failures = 0;       // orders that failed, since all that was ordered had joined
    bool operator==(const AutoscaleState&) const = default;
};

std::uint32_t count_ordered(const AutoscaleState& state);  // nodes that may still join
// How many more nodes may be ordered.
std::uint32_t room_of(const AutoscalePolicy& policy, const AutoscaleState& state);

// Bounds the times of orders that a head before this one has saved: between the two the wall clock may have been set.
// A machine that was ordered has a minute to register with the new head, and no longer than if it were ordered now.
void restored(const AutoscalePolicy& policy, AutoscaleState& state, Time now);

// Takes nodes that have joined off what was ordered, and notes who is idle. Returns how many were given up just now.
std::uint32_t observe(const Cluster& cluster, const AutoscalePolicy& policy, AutoscaleState& state, Time now);

struct WaitingGang {
    RunId run;
    GangRequest gang;
    std::map<NodeId, Held> withheld{};  // what its reservation keeps from those behind it, of what is free now
};
struct AutoscaleQuestion {  // a copy: it is answered on another thread
    // Ready ones with room for some bundle of what waits, beside the reservations of runs that are not in `waiting`.
    std::vector<NodeView> nodes;
    std::vector<WaitingGang> waiting;  // in the order of the queue; without those that a quota keeps out
    NodeOffer offer;
    std::uint32_t ordered = 0, room = 0, max = 0;  // room: how many more may be ordered
};
AutoscaleQuestion autoscale_question(const Cluster& cluster, const AutoscalePolicy& policy,
                                     const AutoscaleState& state);
struct NodesNeeded {
    std::uint32_t nodes = 0;   // beside those that are there or ordered
    std::set<NodeId> used;     // by runs that wait: these are about to be
    std::set<RunId> hopeless;  // `max` new nodes would not hold them
    bool operator==(const NodesNeeded&) const = default;
};
NodesNeeded nodes_needed(const AutoscaleQuestion& question);
// Runs that no number of nodes would hold are passed over for a while: however many there are, those behind them are
// looked at.
void note_hopeless(AutoscaleState& state, const NodesNeeded& needed, Time now);

struct AutoscaleStep {
    std::uint32_t order = 0;
    std::optional<NodeId> drain, release;
    std::vector<NodeId> undrain;
    bool operator==(const AutoscaleStep&) const = default;
};
AutoscaleStep autoscale_step(const Cluster& cluster, const AutoscalePolicy& policy, const AutoscaleState& state,
                             const NodesNeeded& needed, Time now);

// Whether the machine of a node may be given back now: it is drained by the autoscaler still, and without work; or it
// never joined, and no node has its name.
bool may_release(const Cluster& cluster, const AutoscaleState& state, const NodeId& node);
bool drained_by_autoscaler(const Node& node);

enum class CommandResult {
    done,
    failed,   // it has done nothing
    not_now,  // that node goes another time
    ended     // at its timeout: what it has done is not known
};
void order_begins(const AutoscalePolicy& policy, AutoscaleState& state, std::uint32_t nodes, Time now);
// `names`: the machines that the command has named. There are so many then, however the command ended.
void order_ended(const AutoscalePolicy& policy, AutoscaleState& state, CommandResult result,
                 const std::set<NodeId>& names, Time now);
void release_ended(const AutoscalePolicy& policy, AutoscaleState& state, const NodeId& node, CommandResult result,
                   Time now);

}  // namespace rtrain

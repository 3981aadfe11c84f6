// The nodes as placement sees them: totals less exact sums of what live attempts hold, and the amounts that
// reservations hold. Free amounts are shown as zero if a node has returned smaller than what a stopping attempt still
// holds. Invariant: views, masks and holds have one entry for each node, in the order of ids; the index of free slots
// has the same views and holds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/tables/allocations.hpp"
#include "scheduler/index/tables/gains.hpp"
#include "scheduler/placement/free_index.hpp"
#include "scheduler/placement/node_holds.hpp"

namespace rtrain {

class NodeTable {
  public:
    const std::vector<NodeView>& views() const { return views_; }  // sorted by id
    const NodeView* find(const NodeId& id) const;
    std::size_t place_of(const NodeId& id) const;  // an index into views(); their number if the node is absent
    const std::set<AttemptId>& attempts_on(const NodeId& id) const;
    ReservationMask mask(std::size_t place) const { return masks_[place]; }
    const NodeHolds& holds(std::size_t place) const { return holds_[place]; }
    const Sums& free() const { return free_; }      // sums over the ready nodes
    const Sums& totals() const { return totals_; }  // sums over all nodes that are not lost, including GPUs
    std::size_t awaited() const { return awaited_; }
    FreeIndex& free_slots() { return free_slots_; }
    const FreeIndex& free_slots() const { return free_slots_; }
    const Gains& gains() const { return gains_; }
    // Returns the views with only the room that reservations outside of the mask leave.
    std::vector<NodeView> views(ReservationMask open) const;

    // ---- changes
    NodeView view_of(const Node& node);  // the record as a view, with the free amounts that live attempts leave
    std::optional<std::size_t> put(NodeView view);  // returns the node's index into views() if it is new
    void erase(const NodeId& id);
    // counts the change of a node as a gain, since gangs may find room there; called before the change is put
    void count_change(const NodeId& id);
    void take(AttemptId id, const Allocation& allocation);
    void give_back(AttemptId id, const Allocation& allocation);
    void put_holds(std::size_t place, NodeHolds holds);

    // Returns what differs from a recount. `naive`: views that are computed in another way.
    std::vector<std::string> differences(const NodeTable& recount, const std::vector<NodeView>& naive) const;

  private:
    struct Standing {  // the amounts that live attempts hold of a node
        Resources used;
        std::vector<Amount> gpus_used;
        std::map<std::string, std::uint32_t> zero_bundles;  // key: the user, as in NodeView
        std::set<AttemptId> attempts;
    };
    void show(const NodeId& id, const Standing& standing, const Resources& changed,
              const std::vector<GpuShare>& shares);
    bool show_gpus(NodeView& view, const Standing& standing, const std::vector<GpuShare>& shares);
    void sum(const NodeView& view, int sign);
    void sum_totals(const NodeView& view, int sign);

    std::map<NodeId, Standing> standing_;
    std::vector<NodeView> views_;
    std::map<NodeId, std::size_t> places_;
    std::vector<ReservationMask> masks_;
    std::vector<NodeHolds> holds_;
    Sums free_, totals_;
    FreeIndex free_slots_;
    std::size_t awaited_ = 0;
    Gains gains_;
};

}  // namespace rtrain

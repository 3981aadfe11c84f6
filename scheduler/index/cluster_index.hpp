// What follows from the records and would be dear to find anew for each event: who waits in which order, who lives
// where, what is free. Kept up to date by deltas (Change::settle). Not part of the state: it is never saved, and
// clusters with equal records are equal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/index/gains.hpp"
#include "scheduler/index/waiting.hpp"

namespace rtrain {

struct Cluster;

class ClusterIndex {
  public:
    struct Stale {  // records that have changed since the last update
        std::set<NodeId> nodes;
        std::set<RunId> runs;
        std::set<AttemptId> attempts;
    };
    void update(const Cluster& cluster, const Stale& stale);
    void fall_behind() { in_step_ = false; }  // records were changed by others than `decide`
    bool in_step() const { return in_step_; }
    void catch_up(const Cluster& cluster);  // made anew, if it has fallen behind
    bool operator==(const ClusterIndex&) const { return true; }

    using Batches = std::map<std::uint32_t, WaitingBatch>;  // by the number of the shape; never empty
    const std::map<Line, Batches>& waiting() const { return waiting_; }
    const std::set<RunId>& fresh() const { return fresh_; }          // waiting, and not told yet why
    const std::set<RunId>& reserving() const { return reserving_; }  // waiting with nodes reserved
    const Shape& shape(std::uint32_t number) const { return shapes_[number]; }
    bool waits(RunId run) const;
    std::uint32_t shape_of(RunId waiting) const { return runs_.at(waiting).shape; }
    const Line& line_of(RunId waiting) const { return waiting_.find(runs_.at(waiting).line)->first; }
    using AllocatedOn = std::map<NodeId, std::pair<Resources, std::vector<GpuShare>>>;
    const AllocatedOn& allocated_to(AttemptId live) const { return attempts_.at(live).by_node; }
    const std::set<AttemptId>& live_attempts() const { return live_attempts_; }
    const std::set<AttemptId>& on_node(const NodeId& node) const;  // live ones
    const std::vector<NodeView>& nodes() const { return views_; }  // by id
    const NodeView* node(const NodeId& id) const;
    const Reservations& reserved() const { return reserved_; }
    ReservationMask reserve_for(RunId run, ReservedSeats seats);              // its bit
    ReservationMask mask_of(std::size_t node) const { return masks_[node]; }  // of nodes()
    const NodeHolds& holds_on(std::size_t node) const { return holds_[node]; }
    // The reservations that expect that the attempt has ended when they begin, of those with seats on the node.
    ReservationMask ends_before(AttemptId live, std::size_t node) const {
        return attempts_.at(live).ends_before & masks_[node];
    }
    Time known_end(AttemptId live) const { return attempts_.at(live).end; }  // or unknown_end
    // What the nodes have beside the seats of reservations that the mask does not open.
    std::vector<NodeView> nodes(ReservationMask open) const;
    bool room_for(std::uint32_t shape,
                  ReservationMask open);  // no: there is none, or all that is free there together is less
    bool ever(std::uint32_t shape);       // whether the present nodes could hold it, were they empty
    // Prefers nodes without seats of closed reservations where these serve as well.
    PlacementAnswer place(std::uint32_t shape, ReservationMask open);
    bool fits(std::uint32_t shape, ReservationMask open);  // now
    std::uint64_t searches() const { return searches_; }   // for room on the nodes, since the cluster index was made
    const UniformGang* uniform(std::uint32_t shape, ReservationMask open,
                               OnReserved on_reserved = OnReserved::rest);  // null: the index does not answer for it
    FreeIndex& free_slots() { return free_slots_; }
    std::size_t place_of(const NodeId& node) const;          // in nodes(); their number: it is not there
    const std::set<Release>& ends() const { return ends_; }  // of live attempts whose expected end does not move
    const std::set<AttemptId>& restless() const { return restless_; }  // the others
    const Sums& totals() const { return totals_; }                     // of all nodes that are not lost, their GPUs too
    std::vector<std::string> faults(const Cluster& cluster) const;     // what differs from a recount
    std::optional<RunId> live_run(const std::string& name) const;
    std::vector<RunId> dependents(RunId run) const;                                         // that wait for its end
    std::optional<RunId> next_of(const std::string& array, const std::string& user) const;  // held back by its number
    const std::set<RunId>& elastic() const { return elastic_; }                             // running, of changing size
    std::vector<AttemptId> requests_due(Time now) const;                                    // whose deadline has come
    std::vector<NodeId> drained_until(Time now) const;
    std::optional<RunId> submitted(const std::string& user, const std::string& key) const;
    const std::map<std::string, Sums>& in_use() const { return in_use_; }  // by queue
    std::optional<Time> next_wake(Time after) const;
    std::vector<RunId> limits_until(Time now) const;
    const std::set<Waiter>& waiting_of(const std::string& program) const;
    std::vector<RunId> position_holders(Time until) const;  // those with nodes reserved, or recovering by then; by age
    bool retries_within(Time after, Time until) const;

  private:
    struct Allocation {
        std::string queue, user;
        Sums total;
        AllocatedOn by_node;
        std::map<NodeId, std::uint32_t> zero_bundles;  // the attempt's workers there that hold no resource
        Time end = unknown_end;                        // as far as the records know it
        ReservationMask ends_before = 0;               // of the reservations on its nodes, those that count on its end
    };
    struct Known {  // of a run, to be taken out again
        std::string name, user, submit_key, program;
        bool live = false, waits = false;
        Line line;
        std::uint32_t shape = 0, least = 0;  // the least of its workers
        std::vector<NodeId> avoided;         // what its shape depends on, and may change, with `least`
        Waiter waiter;
        Duration length;
        std::optional<Time> limit, retry, reserved, grows, starves;
        std::vector<RunId> after;
        std::string array;
    };
    struct Standing {
        Resources used;
        std::vector<Amount> gpus_used;
        std::map<std::string, std::uint32_t> zero_bundles;  // by user, as in NodeView
        std::set<AttemptId> attempts;
    };
    void renew_run(const Cluster& cluster, RunId id);
    std::optional<std::uint32_t> keep_shape(const Run& run);
    void add_names(const Run& run);
    void add_waiting(const Run& run, std::optional<std::uint32_t> same_shape, Known& known);
    enum class Names { drop, keep };
    void forget_run(RunId id, Names names);
    void renew_waits(const Run& run, Known& known);
    void forget_waits(RunId id, const Known& known);
    void renew_request(const Cluster& cluster, AttemptId id);
    void renew_drain(const Cluster& cluster, const NodeId& id);
    void renew_attempt(const Cluster& cluster, AttemptId id);
    void renew_node(const Cluster& cluster, const NodeId& id);
    void hold(const Cluster& cluster, const Attempt& attempt);
    void let_go(AttemptId id);
    void show(const NodeId& id, const Standing& standing, const Resources& changed,
              const std::vector<GpuShare>& shares);
    void refresh(NodeView& view, const Standing& standing);
    void sum(const NodeView& view, int sign);
    void sum_totals(const NodeView& view, int sign);
    void renew_holds(std::size_t node);
    void put_holds(std::size_t node, NodeHolds holds);
    bool counts_on_end(AttemptId id, const ReservedSeats& seats) const;
    void renew_releases(AttemptId id);
    void move_release(const Allocation& allocation, ReservationMask from, ReservationMask to);
    void forget_releases(AttemptId id);
    PlacementAnswer place_now(std::uint32_t shape, ReservationMask open, OnReserved on_reserved);
    bool takes_reserved(const Seats& seats, ReservationMask open) const;
    void forget_ever(const NodeView* before, const NodeView* now);
    void renew_end(const Cluster& cluster, AttemptId id);
    std::map<std::string, Sums> in_use_now() const;
    std::vector<std::string> waiting_text() const;
    void compare_nodes(const Cluster& cluster, const ClusterIndex& recount, std::vector<std::string>& wrong) const;
    bool still_full(Shape& shape, ReservationMask open) const;
    std::uint32_t shape_of(const GangRequest& gang);
    void remove_from_shape(std::uint32_t number);

    std::map<RunId, Known> runs_;
    std::map<Line, Batches> waiting_;
    std::set<RunId> fresh_, reserving_, elastic_;
    std::map<std::string, RunId> live_names_;
    std::map<std::pair<std::string, std::string>, std::set<RunId>> submitted_;  // the runs of an array have one key
    std::set<std::pair<Time, RunId>> limits_, retries_, reservations_, growths_, starves_;
    std::set<std::pair<RunId, RunId>> dependents_;           // the run, and who waits for it
    std::set<std::pair<std::string, RunId>> array_waiting_;  // by user and array
    std::set<std::pair<Time, AttemptId>> request_deadlines_;
    std::map<AttemptId, Time> request_deadline_of_;
    std::set<std::pair<Time, NodeId>> drained_;
    std::map<NodeId, Time> drained_until_;
    std::vector<Shape> shapes_;
    std::map<std::string, std::uint32_t> shape_numbers_;
    std::vector<std::string> shape_keys_;
    std::vector<std::uint32_t> free_shapes_;

    std::set<AttemptId> live_attempts_, restless_;
    std::map<AttemptId, Allocation> attempts_;
    std::map<std::string, Sums> in_use_;
    std::map<NodeId, Standing> standing_;
    std::vector<NodeView> views_;
    std::map<NodeId, std::size_t> places_;
    Reservations reserved_;
    std::vector<ReservationMask> masks_;                  // of `views_`
    std::vector<NodeHolds> holds_;                        // of `views_`
    std::map<std::string, std::set<Waiter>> waiting_of_;  // by the program that submitted them
    Gains gains_;
    std::uint64_t searches_ = 0;
    std::set<Release> ends_;
    std::map<AttemptId, Release> end_of_;
    Sums free_, totals_;    // on ready nodes; of all that are not lost
    FreeIndex free_slots_;  // of `views_`
    std::map<std::uint32_t, bool> ever_;
    bool in_step_ = false;
};

// The cluster's own index, or one made for the moment where it has fallen behind.
const ClusterIndex& in_step(const Cluster& cluster, ClusterIndex& scratch);

}  // namespace rtrain

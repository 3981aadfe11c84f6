// Derived data that would be expensive to compute for each event: the order of waiting runs, the attempts of each node,
// free amounts. Change::settle updates it by deltas. It is not part of the state: it is never saved, and two clusters
// with equal records are equal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/index/tables/gains.hpp"
#include "scheduler/index/tables/waiting.hpp"

namespace rtrain {

struct Cluster;

class ClusterIndex {
  public:
    struct Stale {  // the records that have changed since the last update
        std::set<NodeId> nodes;
        std::set<RunId> runs;
        std::set<AttemptId> attempts;
    };
    void update(const Cluster& cluster, const Stale& stale);
    // Marks the index as out of date: records were changed outside of `decide`.
    void fall_behind() { in_step_ = false; }
    bool in_step() const { return in_step_; }
    void catch_up(const Cluster& cluster);  // rebuilds the index if it is out of date
    bool operator==(const ClusterIndex&) const { return true; }

    using Batches = std::map<std::uint32_t, WaitingBatch>;  // key: the number of the shape; never empty
    const std::map<Line, Batches>& waiting() const { return waiting_; }
    const std::set<RunId>& fresh() const { return fresh_; }          // waiting runs that have no wait reason yet
    const std::set<RunId>& reserving() const { return reserving_; }  // waiting runs with reserved nodes
    const Shape& shape(std::uint32_t number) const { return shapes_[number]; }
    bool waits(RunId run) const;
    std::uint32_t shape_of(RunId waiting) const { return runs_.at(waiting).shape; }
    const Line& line_of(RunId waiting) const { return waiting_.find(runs_.at(waiting).line)->first; }
    using AllocatedOn = std::map<NodeId, std::pair<Resources, std::vector<GpuShare>>>;
    const AllocatedOn& allocated_to(AttemptId live) const { return attempts_.at(live).by_node; }
    const std::set<AttemptId>& live_attempts() const { return live_attempts_; }
    const std::set<AttemptId>& on_node(const NodeId& node) const;  // live attempts only
    const std::vector<NodeView>& nodes() const { return views_; }  // sorted by id
    const NodeView* node(const NodeId& id) const;
    const Reservations& reserved() const { return reserved_; }
    ReservationMask reserve_for(RunId run, ReservedSeats seats);              // returns the reservation's bit
    ReservationMask mask_of(std::size_t node) const { return masks_[node]; }  // `node`: an index into nodes()
    const NodeHolds& holds_on(std::size_t node) const { return holds_[node]; }
    // Returns the reservations with seats on the node that expect the attempt to end before they begin.
    ReservationMask ends_before(AttemptId live, std::size_t node) const {
        return attempts_.at(live).ends_before & masks_[node];
    }
    Time known_end(AttemptId live) const { return attempts_.at(live).end; }  // unknown_end if it is unknown
    // Returns the nodes' free amounts without the seats of reservations that the mask does not open.
    std::vector<NodeView> nodes(ReservationMask open) const;
    // Returns false if there is certainly no room, also if the free amounts of all nodes are too small in sum.
    bool room_for(std::uint32_t shape, ReservationMask open);
    bool ever(std::uint32_t shape);  // true if the present nodes could hold the gang when empty, or nodes are awaited
    bool awaits_nodes() const { return awaited_ > 0; }  // nodes that have not registered since the head's start
    // Places the gang. Prefers nodes without seats of closed reservations if these serve as well.
    PlacementAnswer place(std::uint32_t shape, ReservationMask open);
    bool fits(std::uint32_t shape, ReservationMask open);  // true if the gang fits now
    std::uint64_t searches() const { return searches_; }   // number of searches of the nodes since the index was built
    const UniformGang* uniform(std::uint32_t shape, ReservationMask open,
                               // Returns null if the index of free slots cannot answer for the shape.
                               OnReserved on_reserved = OnReserved::rest);
    FreeIndex& free_slots() { return free_slots_; }
    // returns an index into nodes(); their number if the node is absent
    std::size_t place_of(const NodeId& node) const;
    const std::set<Release>& ends() const { return ends_; }            // live attempts whose expected end is fixed
    const std::set<AttemptId>& restless() const { return restless_; }  // attempts whose end moves with time
    const Sums& totals() const { return totals_; }                     // over all nodes that are not lost, with GPUs
    std::vector<std::string> faults(const Cluster& cluster) const;     // differences from a recount
    std::optional<RunId> live_run(const std::string& name) const;
    std::vector<RunId> dependents(RunId run) const;  // the runs that wait for the end of this run
    // Returns the next run of a job array that waits only because of the array's limit of parallel runs.
    std::optional<RunId> next_of(const std::string& array, const std::string& user) const;
    const std::set<RunId>& elastic() const { return elastic_; }  // running runs whose number of workers may change
    std::vector<AttemptId> requests_due(Time now) const;         // attempts with an overdue request
    std::vector<NodeId> drained_until(Time now) const;
    std::optional<RunId> submitted(const std::string& user, const std::string& key) const;
    const std::map<std::string, Sums>& in_use() const { return in_use_; }            // key: the queue
    const std::map<QueueUser, UserHold>& user_holds() const { return user_holds_; }  // has users with live attempts
    std::optional<Time> next_wake(Time after) const;
    std::vector<RunId> limits_until(Time now) const;
    const std::set<Waiter>& waiting_of(const std::string& program) const;
    // Returns the waiting runs that keep their place, by age: those with reserved nodes, and those whose retry is due
    // until then.
    std::vector<RunId> position_holders(Time until) const;
    bool retries_within(Time after, Time until) const;

  private:
    struct Allocation {
        std::string queue, user;
        Sums total;
        AllocatedOn by_node;
        std::map<NodeId, std::uint32_t> zero_bundles;  // number of workers without resources
        Time end = unknown_end;                        // as far as the records determine it
        ReservationMask ends_before = 0;               // the reservations on the attempt's nodes that count on its end
    };
    struct Known {  // the entries of a run, stored for their removal
        std::string name, user, submit_key, program;
        bool live = false, waits = false;
        Line line;
        std::uint32_t shape = 0, least = 0;  // `least`: the least number of workers
        std::vector<NodeId> avoided;         // `avoided` and `least` are the inputs of the shape that may change
        Waiter waiter;
        Duration length;
        std::optional<Time> limit, retry, reserved, grows, starves;
        std::vector<RunId> after;
        std::string array;
    };
    struct Standing {
        Resources used;
        std::vector<Amount> gpus_used;
        std::map<std::string, std::uint32_t> zero_bundles;  // key: the user, as in NodeView
        std::set<AttemptId> attempts;
    };
    void renew_run(const Cluster& cluster, RunId id);
    std::optional<std::uint32_t> keep_shape(const Run& run);
    void add_names(const Run& run);
    void add_waiting(const Cluster& cluster, const Run& run, std::optional<std::uint32_t> same_shape, Known& known);
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
    void sum(const NodeView& view, int sign), sum_totals(const NodeView& view, int sign);
    void renew_holds(std::size_t node), put_holds(std::size_t node, NodeHolds holds);
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
    std::map<std::pair<std::string, std::string>, std::set<RunId>> submitted_;  // All runs of an array have one key.
    std::set<std::pair<Time, RunId>> limits_, retries_, reservations_, growths_, starves_;
    std::set<std::pair<RunId, RunId>> dependents_;           // pairs of a run and a run that waits for it
    std::set<std::pair<std::string, RunId>> array_waiting_;  // pairs of (user and array) and run
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
    std::map<QueueUser, UserHold> user_holds_;
    std::map<NodeId, Standing> standing_;
    std::vector<NodeView> views_;
    std::map<NodeId, std::size_t> places_;
    Reservations reserved_;
    std::vector<ReservationMask> masks_;  // index: as in `views_`, also of the next
    std::vector<NodeHolds> holds_;
    std::map<std::string, std::set<Waiter>> waiting_of_;  // key: the program that submitted the runs
    Gains gains_;
    std::uint64_t searches_ = 0;
    std::set<Release> ends_;
    std::map<AttemptId, Release> end_of_;
    Sums free_, totals_;    // `free_`: on ready nodes; `totals_`: on all nodes that are not lost
    FreeIndex free_slots_;  // index: as in `views_`
    std::map<std::uint32_t, bool> ever_;
    std::size_t awaited_ = 0;
    bool in_step_ = false;
};

// Returns the cluster's own index. If that is out of date, it builds one in `scratch` and returns it.
const ClusterIndex& in_step(const Cluster& cluster, ClusterIndex& scratch);

}  // namespace rtrain

// Derived data that would be expensive to compute for each event: the order of waiting runs, the attempts of each node,
// free amounts. Change::settle updates it by deltas. It is not part of the state: it is never saved, and two clusters
// with equal records are equal.
//
// This class reads the records and keeps the tables (index/tables) in step with them. A table receives values, and uses
// no other table except those named in its functions:
//
//   ClusterIndex ─► WaitingRuns, RunNames, RunTimes, RunLinks, Deadlines, ExpectedEnds
//                ─► GangSearch, NodeReservations ─► NodeTable, Shapes, Allocations
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/index/tables/allocations.hpp"
#include "scheduler/index/tables/deadlines.hpp"
#include "scheduler/index/tables/expected_ends.hpp"
#include "scheduler/index/tables/gang_search.hpp"
#include "scheduler/index/tables/node_reservations.hpp"
#include "scheduler/index/tables/node_table.hpp"
#include "scheduler/index/tables/run_links.hpp"
#include "scheduler/index/tables/run_names.hpp"
#include "scheduler/index/tables/run_times.hpp"
#include "scheduler/index/tables/shapes.hpp"
#include "scheduler/index/tables/waiting_runs.hpp"

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
    std::vector<std::string> faults(const Cluster& cluster) const;  // differences from a recount

    // ---- waiting runs and their shapes
    using Batches = WaitingRuns::Batches;
    const std::map<Line, Batches>& waiting() const { return waiting_.lines(); }
    const std::set<RunId>& fresh() const { return waiting_.fresh(); }          // waiting runs without a wait reason
    const std::set<RunId>& reserving() const { return waiting_.reserving(); }  // waiting runs with reserved nodes
    const std::set<Waiter>& waiting_of(const std::string& program) const { return waiting_.of_program(program); }
    const Shape& shape(std::uint32_t number) const { return shapes_[number]; }
    bool waits(RunId run) const;
    std::uint32_t shape_of(RunId waiting) const { return runs_.at(waiting).waiting->shape; }
    const Line& line_of(RunId waiting) const { return waiting_.stored(runs_.at(waiting).waiting->line); }
    // Returns the waiting runs that keep their place in the queue, by age. They have reserved nodes, or their retry is
    // due by `until`.
    std::vector<RunId> position_holders(Time until) const;

    // ---- allocations and expected ends of live attempts
    using AllocatedOn = Allocation::ByNode;
    const AllocatedOn& allocated_to(AttemptId live) const { return allocations_.at(live).by_node; }
    const std::set<AttemptId>& live_attempts() const { return allocations_.live(); }
    const std::map<std::string, Sums>& in_use() const { return allocations_.in_use(); }  // key: the queue
    // the holdings of each user with a live attempt
    const std::map<QueueUser, UserHold>& user_holds() const { return allocations_.user_holds(); }
    // the expected end of the attempt; unknown_end if it is unknown
    Time known_end(AttemptId live) const { return allocations_.at(live).end; }
    const std::set<Release>& ends() const { return ends_.ends(); }            // attempts whose expected end is fixed
    const std::set<AttemptId>& restless() const { return ends_.restless(); }  // attempts whose end moves with time

    // ---- nodes and reservations; `node`: an index into nodes()
    const std::vector<NodeView>& nodes() const { return nodes_.views(); }  // sorted by id
    // Returns the nodes' free amounts without the seats of reservations that the mask does not open.
    std::vector<NodeView> nodes(ReservationMask open) const { return nodes_.views(open); }
    const NodeView* node(const NodeId& id) const { return nodes_.find(id); }
    // returns an index into nodes(); their number if the node is absent
    std::size_t place_of(const NodeId& node) const { return nodes_.place_of(node); }
    // the live attempts on this node
    const std::set<AttemptId>& on_node(const NodeId& node) const { return nodes_.attempts_on(node); }
    const Sums& totals() const { return nodes_.totals(); }  // sums over all nodes that are not lost, including GPUs
    // true if some node has not registered since the head's start
    bool awaits_nodes() const { return nodes_.awaited() > 0; }
    FreeIndex& free_slots() { return nodes_.free_slots(); }
    const Reservations& reserved() const { return reserved_.all(); }
    ReservationMask reserve_for(RunId run, ReservedSeats seats) {  // returns the reservation's bit
        return reserved_.reserve(run, std::move(seats), nodes_, allocations_);
    }
    ReservationMask mask_of(std::size_t node) const { return nodes_.mask(node); }
    const NodeHolds& holds_on(std::size_t node) const { return nodes_.holds(node); }
    // Returns the reservations with seats on the node that expect the attempt to end before they begin.
    ReservationMask ends_before(AttemptId live, std::size_t node) const {
        return allocations_.at(live).ends_before & nodes_.mask(node);
    }

    // ---- searches for room
    // Returns false if there is certainly no room, also if the free amounts of all nodes are too small in sum.
    bool room_for(std::uint32_t shape, ReservationMask open) {
        return search_.room_for(shapes_[shape], nodes_, !reserved_.empty(), open);
    }
    // true if the present nodes could hold the gang when empty, or nodes are awaited
    bool ever(std::uint32_t shape) { return awaits_nodes() || search_.ever(shape, shapes_[shape], nodes_); }
    // Places the gang. Prefers nodes without seats of closed reservations if these serve as well.
    PlacementAnswer place(std::uint32_t shape, ReservationMask open) {
        return search_.place(shapes_[shape], nodes_, !reserved_.empty(), open);
    }
    bool fits(std::uint32_t shape, ReservationMask open) {  // true if the gang fits now
        return search_.fits(shapes_[shape], nodes_, !reserved_.empty(), open);
    }
    std::uint64_t searches() const { return search_.searches(); }  // number of searches since the index was built
    const UniformGang* uniform(std::uint32_t shape, ReservationMask open,
                               // Returns null if the index of free slots cannot answer for the shape.
                               OnReserved on_reserved = OnReserved::rest) {
        return GangSearch::uniform(shapes_[shape], nodes_, open, on_reserved);
    }

    // ---- names, times, and runs that wait for runs
    std::optional<RunId> live_run(const std::string& name) const { return names_.live_run(name); }
    std::optional<RunId> submitted(const std::string& user, const std::string& key) const {
        return names_.submitted(user, key);
    }
    // the runs that wait for this run's end
    std::vector<RunId> dependents(RunId run) const { return links_.dependents(run); }
    // Returns the next run of a job array that waits only because of the array's limit of parallel runs.
    std::optional<RunId> next_of(const std::string& array, const std::string& user) const {
        return links_.next_of_array(array_key(array, user));
    }
    // Returns the live runs that end with this one.
    std::vector<RunId> helpers(RunId owner) const { return links_.helpers(owner); }
    const std::set<RunId>& yielding() const { return links_.yielding(); }  // live runs that yield
    const std::set<RunId>& elastic() const {
        return links_.elastic();
    }  // running runs whose number of workers may change
    std::optional<Time> next_wake(Time after) const;
    std::vector<RunId> limits_until(Time now) const { return times_.limits_until(now); }
    bool retries_within(Time after, Time until) const { return times_.is_due_within(after, until); }
    // attempts with a request whose deadline has passed
    std::vector<AttemptId> requests_due(Time now) const { return requests_.until(now); }
    std::vector<NodeId> drained_until(Time now) const { return drains_.until(now); }

  private:
    struct Known {  // the entries of a run, stored for their removal
        NamesOfRun names;
        std::optional<WaitingRun> waiting;
        std::vector<NodeId> avoided;  // `avoided` and `least` are the inputs of the shape that may change
        std::uint32_t least = 0;      // the least number of workers
        TimesOfRun times;
        LinksOfRun links;
    };
    void renew_run(const Cluster& cluster, RunId id);
    std::optional<std::uint32_t> keep_shape(const Run& run);
    WaitingRun waiting_run(const Cluster& cluster, const Run& run, std::optional<std::uint32_t> same_shape);
    TimesOfRun times_of(const Cluster& cluster, const Run& run, const std::optional<WaitingRun>& waiting) const;
    enum class Names { drop, keep };
    void forget_run(RunId id, Names names);
    void release_shape(std::uint32_t number);
    void renew_request(const Cluster& cluster, AttemptId id);
    void renew_attempt(const Cluster& cluster, AttemptId id);
    void renew_end(const Cluster& cluster, AttemptId id);
    void renew_node(const Cluster& cluster, const NodeId& id);
    std::vector<std::string> waiting_text() const;

    std::map<RunId, Known> runs_;
    WaitingRuns waiting_;
    Shapes shapes_;
    RunNames names_;
    RunTimes times_;
    RunLinks links_;
    Deadlines<AttemptId> requests_;
    Deadlines<NodeId> drains_;
    Allocations allocations_;
    ExpectedEnds ends_;
    NodeTable nodes_;
    NodeReservations reserved_;
    GangSearch search_;
    bool in_step_ = false;
};

// Returns the cluster's own index. If that is out of date, it builds one in `scratch` and returns it.
const ClusterIndex& in_step(const Cluster& cluster, ClusterIndex& scratch);

}  // namespace rtrain

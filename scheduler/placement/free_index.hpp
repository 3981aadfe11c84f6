// The free amounts of the nodes, counted per shape of bundle and updated by deltas. A gang of equal bundles is placed
// without examining every node, and refused without examining any. The answers equal those of `place` on the same
// nodes; a recount (`faults`) and a property test check that. Derived data: never saved, rebuilt from the records.
// Reservations hold parts of nodes. For a gang that may not use a reservation, only the rest of its nodes counts.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/placement/node_holds.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain {

// How a node counts that has seats of a closed reservation: with the rest of it, or not at all.
enum class OnReserved { rest, nothing };

// A prepared gang of equal bundles without constraints on named nodes. Questions about it compare no bundles.
struct UniformGang {
    std::uint32_t shape = 0;       // number of the shape in the index
    std::uint32_t generation = 0;  // detects that the index has forgotten the shape, because it was not used lately
    Strategy strategy = Strategy::pack;
    std::uint32_t count = 0;
    bool operator==(const UniformGang&) const = default;
};

class FreeIndex {
  public:
    // ---- deltas
    void put(const NodeView& node);       // adds a node, or replaces one that has changed
    void put_free(const NodeView& node);  // updates a node of which only the free amounts have changed
    void put_holds(const NodeId& id, NodeHolds holds);
    void erase(const NodeId& id);
    void take(const GangRequest& gang, const Seats& seats);  // never makes an amount negative, as in node_views
    void give(const GangRequest& gang, const Seats& seats);  // gives back what `take` took
    void settle();  // counts pending changes for every shape now; otherwise the next question about a shape counts them

    // ---- questions
    // Returns nullopt if the index cannot answer; `place` then examines every node.
    std::optional<UniformGang> prepare(const GangRequest& request, ReservationMask open = every_reservation,
                                       OnReserved on_reserved = OnReserved::rest);
    bool knows(const UniformGang& gang) const;  // false: the gang must be prepared again
    Verdict verdict(const UniformGang& gang);
    PlacementAnswer place(const UniformGang& gang);
    PlacementAnswer place(const GangRequest& request);  // places any gang; returns the same as the function `place`
    using Limits = std::array<std::uint64_t, 4>;        // index: the strategy; value: the largest gang that fits
    const Limits& limits(const UniformGang& gang);
    std::vector<const NodeView*> with_room(const UniformGang& gang);  // nodes with room for at least one bundle

    const std::vector<NodeView>& nodes() const { return nodes_; }  // erased nodes have no name and are lost
    const NodeView* find(const NodeId& id) const;
    std::vector<std::string> faults() const;  // compares with a recount; returns the differences

  private:
    using Node = std::uint32_t;  // position in nodes_
    using Buckets =
        // number of free slots -> nodes, sorted: unreserved nodes first, then fuller ones, then by id
        std::map<std::uint32_t, std::vector<Node>>;
    struct Fullness {  // values of one node that are equal for all shapes
        Amount gpus, cpus;
        std::uint64_t put = 0;  // value of the change counter when the node's capacity last changed
    };
    struct Count {                           // the count of one node for one shape
        std::uint32_t slots = 0, whole = 0;  // number of bundles that fit now, and on the empty node
        Amount gpus, cpus;                   // how full the node is
        bool has_gpus = false;
        bool reserved = false;  // true: a closed reservation holds a part of the node
        bool operator==(const Count&) const = default;
    };
    struct Demand {  // the two demands that nearly all bundles have, and the others
        explicit Demand(const Resources& all);
        Amount gpus, cpus;
        Resources others;
    };
    struct Shape {
        std::uint64_t seen = 0;  // value of the change counter up to which this shape has counted
        Limits now{}, ever{};    // `now`: with the free amounts; `ever`: as if all nodes were empty
        std::uint64_t slots = 0, whole_slots = 0;
        std::uint32_t nodes = 0, whole_nodes = 0;            // number of nodes with at least one slot
        std::map<std::uint32_t, std::uint32_t> whole_sizes;  // number of slots of the empty node -> number of nodes
        std::vector<Count> counts;                           // index: the node
        Buckets open;                                        // nodes with a free slot
        Buckets plain;                                       // the open nodes without GPUs, for shapes that need none
        Bundle bundle;
        Demand demand{bundle.demand};
        ReservationMask mask = every_reservation;  // mask of the open reservations
        OnReserved on_reserved = OnReserved::rest;
        bool gpu_less = false;
        std::uint32_t generation = 0;
        std::uint64_t asked = 0;  // time of the last question, by `clock_`
    };
    struct Pick {
        Node node = 0;
        std::uint32_t taken = 0;
    };
    using Picks = std::vector<Pick>;

    enum class What { free, all };
    void changed(Node node, What what);
    void order(Node node, const NodeId& id);
    enum class Moves { take, give };
    void move(const GangRequest& gang, const Seats& seats, Moves moves);
    Count count(const Shape& shape, Node node) const;
    Count count_rest(const Shape& shape, Node node) const;
    OpenRoom rest_of(const Shape& shape, Node node) const;
    std::uint32_t slots(const Demand& demand, Node node) const;
    bool before(const Shape& shape, Node a, Node b) const;
    void insert(Shape& shape, Buckets& buckets, Node node) const;
    void remove(Shape& shape, Buckets& buckets, Node node) const;
    void refresh(Shape& shape, Node node) const;
    void rebuild(Shape& shape) const;
    static void set_limits(Shape& shape);
    void bring_up_to_date(Shape& shape);
    std::uint32_t shape_for(const Bundle& bundle, ReservationMask open, OnReserved on_reserved);
    std::uint32_t forget_one();

    Picks pick(const Shape& shape, Strategy strategy, std::uint32_t count) const;
    static Picks pack(const Buckets& buckets, std::uint32_t count);
    Picks spread(const Shape& shape, std::uint32_t count) const;
    Picks strict_spread(const Shape& shape, std::uint32_t count) const;
    std::vector<Node> in_spread_order(const Shape& shape, std::uint32_t most) const;
    Seats seats(const Shape& shape, const Picks& picks, std::uint32_t count) const;
    std::vector<std::string> faults_of(const Shape& shape) const;

    std::vector<NodeView> nodes_;
    std::vector<Fullness> fullness_;      // index: the node
    std::vector<ReservationMask> masks_;  // index: the node; the bits of `holds_`
    std::vector<NodeHolds> holds_;        // index: the node
    std::vector<std::uint64_t> order_;    // index: the node; ascending with the id, with gaps for further nodes
    std::map<NodeId, Node> by_id_;
    std::vector<Node> unused_;
    std::vector<Node> changes_;  // changes since `first_change_`, for shapes that have not counted them yet
    std::uint64_t first_change_ = 0;
    std::vector<Shape> shapes_;
    std::uint64_t clock_ = 0;
};

}  // namespace rtrain

// What the nodes have free, counted per shape of bundle and kept by deltas: a gang of equal bundles is placed without
// looking at every node, and refused by looking at none. The same answers as `place` on the same nodes, which a
// recount (`faults`) and a property test hold it to. A derived value: never saved, rebuilt from the cluster's records.
// Reservations hold parts of nodes. A gang says which of them are open to it, and is counted what the others leave.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/placement/node_holds.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain {

// What counts of a node on which a closed reservation has seats: what the reservation leaves, or nothing.
enum class OnReserved { rest, nothing };

// A gang of equal bundles without constraints on named nodes, prepared once: questions about it cost no comparison.
struct UniformGang {
    std::uint32_t shape = 0;       // which of the index's shapes
    std::uint32_t generation = 0;  // the index forgets shapes that nobody asked for lately
    Strategy strategy = Strategy::pack;
    std::uint32_t count = 0;
    bool operator==(const UniformGang&) const = default;
};

class FreeIndex {
  public:
    // ---- deltas
    void put(const NodeView& node);       // a new node, or one that changed in any way
    void put_free(const NodeView& node);  // a known one, of which only the free amounts changed
    void put_holds(const NodeId& id, NodeHolds holds);
    void erase(const NodeId& id);
    void take(const GangRequest& gang, const Seats& seats);  // never below zero, as in node_views
    void give(const GangRequest& gang, const Seats& seats);  // what `take` took
    void settle();  // brings every shape up to date now; else the next question about a shape does

    // ---- questions
    // none: `place` looks at every node for it
    std::optional<UniformGang> prepare(const GangRequest& request, ReservationMask open = every_reservation,
                                       OnReserved on_reserved = OnReserved::rest);
    bool knows(const UniformGang& gang) const;  // false: prepare it again
    Verdict verdict(const UniformGang& gang);
    PlacementAnswer place(const UniformGang& gang);
    PlacementAnswer place(const GangRequest& request);  // any gang
    using Limits = std::array<std::uint64_t, 4>;        // per strategy: the largest gang that fits
    const Limits& limits(const UniformGang& gang);
    std::vector<const NodeView*> with_room(const UniformGang& gang);  // for at least one bundle

    const std::vector<NodeView>& nodes() const { return nodes_; }  // erased ones are nameless and lost
    const NodeView* find(const NodeId& id) const;
    std::vector<std::string> faults() const;  // a naive recount: what is wrong, empty when nothing

  private:
    using Node = std::uint32_t;  // position in nodes_
    using Buckets =
        std::map<std::uint32_t, std::vector<Node>>;  // free slots -> nodes: unreserved, then fuller, then by id
    struct Fullness {                                // of one node, the same for every shape
        Amount gpus, cpus;
        std::uint64_t put = 0;  // changes counted when it was put: what it holds when empty is as it was then
    };
    struct Count {                           // of one node for one shape
        std::uint32_t slots = 0, whole = 0;  // bundles that fit now, and in the empty node
        Amount gpus, cpus;                   // how full it is
        bool has_gpus = false;
        bool reserved = false;  // in part, by a closed reservation
        bool operator==(const Count&) const = default;
    };
    struct Demand {  // of a bundle: the two that nearly all ask for, and the rest
        explicit Demand(const Resources& all);
        Amount gpus, cpus;
        Resources others;
    };
    struct Shape {
        std::uint64_t seen = 0;  // changes counted so far
        Limits now{}, ever{};    // with what is free; if the nodes were empty
        std::uint64_t slots = 0, whole_slots = 0;
        std::uint32_t nodes = 0, whole_nodes = 0;            // with at least one slot
        std::map<std::uint32_t, std::uint32_t> whole_sizes;  // slots of the empty node -> nodes
        std::vector<Count> counts;                           // per node
        Buckets open;                                        // nodes with a free slot
        Buckets plain;                                       // of them those without GPUs, for shapes that need none
        Bundle bundle;
        Demand demand{bundle.demand};
        ReservationMask mask = every_reservation;  // the open reservations
        OnReserved on_reserved = OnReserved::rest;
        bool gpu_less = false;
        std::uint32_t generation = 0;
        std::uint64_t asked = 0;  // when last, by `clock_`
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
    std::vector<Fullness> fullness_;      // per node
    std::vector<ReservationMask> masks_;  // per node: the bits of `holds_`
    std::vector<NodeHolds> holds_;        // per node
    std::vector<std::uint64_t> order_;    // per node: grows with the id, with gaps for those to come
    std::map<NodeId, Node> by_id_;
    std::vector<Node> unused_;
    std::vector<Node> changes_;  // since `first_change_`, for shapes that were not asked for since
    std::uint64_t first_change_ = 0;
    std::vector<Shape> shapes_;
    std::uint64_t clock_ = 0;
};

}  // namespace rtrain

// The tables of the cluster index about nodes and attempts: allocations, expected ends, free amounts, reservations,
// shapes, and remembered answers.
#include "scheduler/index/tables/gang_search.hpp"
#include "scheduler/index/tables/node_reservations.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;

namespace {

constexpr AttemptId table_attempt{.run = {1}, .number = 1};

Node table_node(std::string id, std::int64_t cpus, std::uint32_t gpus = 0) {
    Node node;
    node.id = {std::move(id)};
    node.total["CPU"] = units(cpus);
    node.gpus = gpus;
    node.state = NodeState::ready;
    return node;
}

Allocation held_on(const std::string& node, std::int64_t cpus, std::vector<GpuShare> gpus = {}) {
    Allocation allocation;
    allocation.queue = "default";
    allocation.user = "ana";
    allocation.by_node[{node}] = {Resources{{"CPU", units(cpus)}}, std::move(gpus)};
    if (!allocation.by_node[{node}].second.empty()) allocation.by_node[{node}].first["GPU"] = units(1);
    return allocation;
}

GangRequest table_gang(std::uint32_t bundles, std::int64_t cpus) {
    GangRequest gang;
    gang.bundles.assign(bundles, Bundle{.demand = {{"CPU", units(cpus)}}});
    return gang;
}

// Nodes with 4 CPUs and two GPUs each.
struct TwoNodes {
    NodeTable nodes;
    Allocations allocations;
    TwoNodes() {
        nodes.put(nodes.view_of(table_node("n2", 4, 2)));
        nodes.put(nodes.view_of(table_node("n1", 4, 2)));
    }
    void hold(AttemptId id, Allocation allocation) {
        nodes.take(id, allocation);
        allocations.add(id, std::move(allocation));
    }
};

}  // namespace

TEST_CASE("an allocation counts for its queue and its user until it is removed") {
    Allocations allocations;
    allocations.add(table_attempt, held_on("n1", 3, {{.device = 0, .amount = units(1)}}));
    CHECK(allocations.at(table_attempt).total.at("CPU") == Sum(units(3)));
    CHECK(allocations.in_use().at("default").at("GPU") == Sum(units(1)));
    CHECK(allocations.user_holds().at({"default", "ana"}) == UserHold{.runs = 1, .gpus = Sum(units(1))});
    CHECK(allocations.live() == std::set<AttemptId>{table_attempt});
    allocations.remove(table_attempt);
    CHECK_FALSE(allocations.contains(table_attempt));
    CHECK(allocations.user_holds().empty());
    CHECK(allocations.in_use().at("default").empty());
}

TEST_CASE("an attempt has a fixed end or is restless, never both") {
    ExpectedEnds ends;
    const Release release{.end = {100}, .placed = {1}, .attempt = table_attempt};
    ends.put_restless(table_attempt);
    ends.put(release);
    CHECK(ends.restless().empty());
    CHECK(ends.ends() == std::set<Release>{release});
    ends.put({.end = {200}, .placed = {1}, .attempt = table_attempt});
    CHECK(ends.ends().begin()->end == Time{200});
    CHECK(ends.ends().size() == 1);
    ends.put_restless(table_attempt);
    CHECK(ends.ends().empty());
    ends.remove(table_attempt);
    CHECK(ends == ExpectedEnds{});
}

TEST_CASE("nodes are sorted, and free amounts follow what attempts hold") {
    TwoNodes world;
    NodeTable& nodes = world.nodes;
    CHECK(nodes.views().front().id == NodeId{"n1"});
    CHECK(nodes.place_of({"n2"}) == 1);
    CHECK(nodes.place_of({"n3"}) == 2);
    CHECK(nodes.free().at("CPU") == Sum(units(8)));
    CHECK(nodes.totals().at("GPU") == Sum(units(4)));
    world.hold(table_attempt, held_on("n1", 3, {{.device = 1, .amount = units(1)}}));
    CHECK(nodes.find({"n1"})->free.at("CPU") == units(1));
    CHECK(nodes.find({"n1"})->gpus_free == std::vector<Amount>{units(1), Amount{}});
    CHECK(nodes.attempts_on({"n1"}) == std::set<AttemptId>{table_attempt});
    CHECK(nodes.free().at("CPU") == Sum(units(5)));
    const std::uint64_t gains = nodes.gains().count();
    nodes.give_back(table_attempt, world.allocations.at(table_attempt));
    CHECK(nodes.gains().count() == gains + 1);
    CHECK(nodes.free().at("GPU") == Sum(units(4)));
    CHECK(nodes.attempts_on({"n1"}).empty());
}

TEST_CASE("a node that returns smaller than what is held of it shows nothing free") {
    TwoNodes world;
    world.hold(table_attempt, held_on("n1", 3, {{.device = 1, .amount = units(1)}}));
    CHECK_FALSE(world.nodes.put(world.nodes.view_of(table_node("n1", 2, 1))));
    CHECK_FALSE(world.nodes.find({"n1"})->free.contains("CPU"));
    CHECK(world.nodes.find({"n1"})->gpus_free == std::vector<Amount>{units(1)});
    world.nodes.erase({"n1"});
    CHECK(world.nodes.find({"n1"}) == nullptr);
    CHECK(world.nodes.place_of({"n2"}) == 0);
    CHECK(world.nodes.attempts_on({"n1"}) == std::set<AttemptId>{table_attempt});
    world.nodes.give_back(table_attempt, world.allocations.at(table_attempt));
    CHECK(world.nodes.attempts_on({"n1"}).empty());
}

TEST_CASE("a reservation counts on attempts that end before it") {
    TwoNodes world;
    world.hold(table_attempt, held_on("n1", 4));
    world.allocations.at(table_attempt).end = Time{100};
    NodeReservations reservations;
    ReservedSeats seats{.from = Time{100}, .nodes = {{{"n1"}, {}}}};
    add(seats.nodes[{"n1"}], {{"CPU", units(4)}}, {});
    const ReservationMask bit = reservations.reserve({9}, seats, world.nodes, world.allocations);
    CHECK(bit != 0);
    CHECK(world.nodes.mask(0) == bit);
    CHECK(world.nodes.mask(1) == 0);
    CHECK(world.allocations.at(table_attempt).ends_before == bit);
    world.allocations.at(table_attempt).end = Time{101};
    reservations.renew_releases(table_attempt, world.nodes, world.allocations);
    CHECK(world.allocations.at(table_attempt).ends_before == 0);
    reservations.reserve({9}, {}, world.nodes, world.allocations);
    CHECK(reservations.empty());
    CHECK(world.nodes.mask(0) == 0);
}

TEST_CASE("equal requests share a shape, and a released number is used again") {
    Shapes shapes;
    const std::uint32_t small = shapes.use(table_gang(2, 1));
    CHECK(shapes.use(table_gang(2, 1)) == small);
    const std::uint32_t large = shapes.use(table_gang(2, 4));
    CHECK(large != small);
    CHECK(shapes[small].waiting == 2);
    CHECK(shapes[large].total.at("CPU") == Sum(units(8)));
    CHECK(shapes.find(shapes.key(small)) == small);
    CHECK_FALSE(shapes.release(small));
    const std::string key = shapes.key(small);
    CHECK(shapes.release(small));
    CHECK(shapes.find(key) == std::nullopt);
    CHECK(shapes.use(table_gang(3, 1)) == small);
}

TEST_CASE("a refusal is remembered until a node with room for a bundle gains some") {
    TwoNodes world;
    Shapes shapes;
    GangSearch search;
    const std::uint32_t number = shapes.use(table_gang(3, 4));
    Shape& shape = shapes[number];
    CHECK(search.place(shape, world.nodes, false, 0).verdict != Verdict::feasible_now);
    CHECK(GangSearch::still_full(shape, world.nodes, 0));
    CHECK_FALSE(search.room_for(shape, world.nodes, false, 0));
    CHECK_FALSE(search.ever(number, shape, world.nodes));
    const NodeView third = world.nodes.view_of(table_node("n3", 4));
    search.forget_ever(shapes, nullptr, &third);
    world.nodes.count_change({"n3"});
    world.nodes.put(third);
    CHECK_FALSE(GangSearch::still_full(shape, world.nodes, 0));
    CHECK(search.fits(shape, world.nodes, false, 0));
    CHECK(search.ever(number, shape, world.nodes));
    CHECK(search.searches() >= 1);
    search.forget_shape(number);
    CHECK(search.known_ever().empty());
}

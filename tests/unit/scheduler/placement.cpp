// The placement of gangs. Small cases are compared with a search over every assignment.
#include "scheduler/placement/placement.hpp"

#include <algorithm>
#include <set>

#include "scheduler/model/derived.hpp"
#include "scheduler/placement/room.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using stories::bundle;

namespace {

NodeView view(const std::string& name, std::int64_t cpus, std::uint32_t gpus = 0, Labels labels = {}) {
    NodeView made;
    made.id = {name};
    made.labels = std::move(labels);
    made.total["CPU"] = units(cpus);
    made.free = made.total;
    made.gpus_free.assign(gpus, units(1));
    return made;
}

GangRequest gang(Strategy strategy, std::size_t count, const Bundle& shape) {
    GangRequest request;
    request.strategy = strategy;
    request.bundles.assign(count, shape);
    return request;
}

std::vector<std::string> nodes_of(const PlacementAnswer& answer) {
    std::vector<std::string> names;
    for (const Seat& seat : answer.seats) names.push_back(seat.node.value);
    return names;
}

using Names = std::vector<std::string>;

std::string reason(const PlacementAnswer& answer, const std::string& node) {
    for (const NodeReason& one : answer.reasons)
        if (one.node.value == node) return one.text;
    return "";
}

}  // namespace

TEST_CASE("PACK takes the fewest nodes, the rest on the tightest one, ranks contiguous") {
    const std::vector<NodeView> nodes{view("a", 4), view("b", 8), view("c", 3), view("d", 2)};
    CHECK(nodes_of(place(nodes, gang(Strategy::pack, 10, bundle(1)))) ==
          Names{"b", "b", "b", "b", "b", "b", "b", "b", "d", "d"});
    CHECK(nodes_of(place(nodes, gang(Strategy::pack, 2, bundle(1)))) == Names{"d", "d"});
}

TEST_CASE("a fraction goes to the fullest device that takes it, whole GPUs to untouched devices") {
    std::vector<NodeView> nodes{view("a", 16, 3)};
    nodes[0].gpus_free = {units(1), Amount{4'000}, Amount{6'000}};
    const auto half = place(nodes, gang(Strategy::pack, 1, bundle(1, Amount{5'000})));
    CHECK(half.seats[0].gpus == std::vector<GpuShare>{{.device = 2, .amount = Amount{5'000}}});
    const auto whole = place(nodes, gang(Strategy::pack, 1, bundle(1, units(1))));
    CHECK(whole.seats[0].gpus == std::vector<GpuShare>{{.device = 0, .amount = units(1)}});
    CHECK(place(nodes, gang(Strategy::pack, 1, bundle(1, units(2)))).verdict == Verdict::pending);
}

TEST_CASE("a gang of zero bundles goes to the calmest node without GPUs") {
    std::vector<NodeView> nodes{view("a", 64, 8), view("b", 2), view("c", 4), view("d", 9)};
    nodes[3].state = NodeState::draining;
    GangRequest request = gang(Strategy::pack, 1, bundle(0));
    CHECK(nodes_of(place(nodes, request)) == Names{"c"});
    for (NodeView& node : nodes) node.free.clear(), node.gpus_free.assign(node.gpus_free.size(), Amount{});
    CHECK(nodes_of(place(nodes, request)) == Names{"b"});
    nodes.resize(1);
    CHECK(nodes_of(place(nodes, request)) == Names{"a"});
    nodes.front().state = NodeState::lost;
    CHECK(place(nodes, request).verdict == Verdict::infeasible);
}

TEST_CASE("zero bundles keep to the strategy, and ranks of a node follow each other") {
    const std::vector<NodeView> nodes{view("a", 8), view("b", 8)};
    CHECK(nodes_of(place(nodes, gang(Strategy::pack, 3, bundle(0)))) == Names{"a", "a", "a"});
    CHECK(nodes_of(place(nodes, gang(Strategy::spread, 4, bundle(0)))) == Names{"a", "a", "b", "b"});
    CHECK(nodes_of(place(nodes, gang(Strategy::strict_pack, 2, bundle(0)))) == Names{"a", "a"});
    const auto most = limits::zero_bundles_most;
    CHECK(place(nodes, gang(Strategy::pack, 2 * most, bundle(0))).verdict == Verdict::feasible_now);
    CHECK(place(nodes, gang(Strategy::pack, 2 * most + 1, bundle(0))).verdict == Verdict::infeasible);
    CHECK(place(nodes, gang(Strategy::strict_pack, most + 1, bundle(0))).verdict == Verdict::infeasible);
}

TEST_CASE("a node takes a bounded number of zero bundles of each user") {
    std::vector<NodeView> nodes{view("a", 8)};
    nodes.front().zero_bundles = {{"ana", limits::zero_bundles_most - 1}};
    GangRequest one = gang(Strategy::pack, 1, bundle(0)), two = gang(Strategy::pack, 2, bundle(0));
    one.user = two.user = "ana";
    CHECK(place(nodes, one).verdict == Verdict::feasible_now);
    CHECK(place(nodes, two).verdict == Verdict::pending);
    two.user = "bob";
    CHECK(place(nodes, two).verdict == Verdict::feasible_now);
    nodes.front().zero_bundles["ana"] = limits::zero_bundles_most + 7;  // an upgrade may leave such a state
    CHECK(place(nodes, one).verdict == Verdict::pending);
    CHECK(explain_placement(nodes, one).reasons.at(0).text ==
          "user ana has 256 workers without resources there, which is the most that one user may have on a node");
}

TEST_CASE("what is not a request is invalid") {
    const std::vector<NodeView> nodes{view("a", 8, 8)};
    CHECK(place(nodes, {}).verdict == Verdict::invalid);
    CHECK(place(nodes, gang(Strategy::pack, 1, bundle(1, Amount{15'000}))).verdict == Verdict::invalid);
    const auto why = explain_placement(nodes, gang(Strategy::pack, 1, bundle(1, Amount{15'000})));
    CHECK(why.reasons.at(0).text == "GPU 1.5: above 1 only whole GPUs");
}

TEST_CASE("a zero bundle reserves nothing and needs no node of its own") {
    const std::vector<NodeView> nodes{view("a", 2)};
    GangRequest request = gang(Strategy::strict_spread, 1, bundle(2));
    request.bundles.push_back(bundle(0));
    CHECK(nodes_of(place(nodes, request)) == Names{"a", "a"});
}

TEST_CASE("pending means: once other jobs end; draining and lost nodes do not count") {
    std::vector<NodeView> nodes{view("a", 8), view("b", 8)};
    nodes[0].free = {};
    CHECK(place(nodes, gang(Strategy::pack, 9, bundle(1))).verdict == Verdict::pending);
    nodes[0].state = NodeState::draining;
    CHECK(place(nodes, gang(Strategy::pack, 9, bundle(1))).verdict == Verdict::infeasible);
    CHECK(place(nodes, gang(Strategy::pack, 8, bundle(1))).verdict == Verdict::feasible_now);
}

TEST_CASE("label selectors, named, excluded and avoided nodes") {
    const std::vector<NodeView> nodes{view("a", 8, 0, {{"zone", "us"}}), view("b", 8, 0, {{"zone", "eu"}}),
                                      view("c", 8)};
    GangRequest request = gang(Strategy::pack, 4, bundle(1));
    request.bundles.assign(
        4, Bundle{.demand = bundle(1).demand, .selector = {{.key = "zone", .values = {"eu"}, .negated = false}}});
    CHECK(nodes_of(place(nodes, request)) == Names(4, "b"));
    request = gang(Strategy::pack, 4, bundle(1));
    request.nodes_only = {{"b"}, {"c"}};
    request.nodes_avoided = {{"b"}};
    CHECK(nodes_of(place(nodes, request)) == Names(4, "c"));
    request.nodes_excluded = {{"c"}};
    CHECK(nodes_of(place(nodes, request)) == Names(4, "b"));  // avoiding a node is a soft rule
}

TEST_CASE("repair: placed bundles stay, the missing ones join them under the same strategy") {
    const std::vector<NodeView> nodes{view("a", 2), view("b", 8), view("c", 4)};
    GangRequest request = gang(Strategy::pack, 4, bundle(1));
    request.placed = {{1, {"a"}}, {2, {"c"}}};
    const auto names = nodes_of(place(nodes, request));
    CHECK(names[1] == "a");
    CHECK(names[2] == "c");
    CHECK(names[0] == "a");  // a already hosts the gang and has room for both
    CHECK(names[3] == "a");
    request.strategy = Strategy::strict_spread;
    CHECK(place(nodes, request).verdict == Verdict::infeasible);
    request.bundles.resize(3);
    CHECK(nodes_of(place(nodes, request)) == Names{"b", "a", "c"});
}

TEST_CASE("mixed gangs: what greedy would miss is found") {
    std::vector<NodeView> nodes{view("a", 4, 1), view("b", 8)};
    GangRequest request = gang(Strategy::pack, 1, bundle(8));
    request.bundles.push_back(bundle(2, units(1)));
    request.bundles.push_back(bundle(2));
    CHECK(nodes_of(place(nodes, request)) == Names{"b", "a", "a"});
    request.bundles.push_back(bundle(1));
    const auto never = place(nodes, request);
    CHECK(never.verdict == Verdict::infeasible);
    CHECK(never.proved);
}

TEST_CASE("a gang of which many unlike bundles are too large is told why, and no list of changes") {
    const std::vector<NodeView> nodes{view("a", 8), view("b", 8)};
    GangRequest request = gang(Strategy::pack, 40, bundle(9));
    for (std::size_t i = 1; i < request.bundles.size(); i += 2) request.bundles[i] = bundle(10);
    const auto answer = explain_placement(nodes, request);
    CHECK(answer.verdict == Verdict::infeasible);
    CHECK(reason(answer, "a") == "has 8 CPU, bundle needs 9");
    CHECK(answer.nearest_change.empty());
    request.bundles.resize(2);
    CHECK(explain_placement(nodes, request).nearest_change == "would start now with bundle 0 CPU=8 and bundle 1 CPU=8");
    CHECK(placement_reasons(nodes, request, 1).size() == 1);
}

TEST_CASE("every refusal says why, per node, and what would fit") {
    std::vector<NodeView> nodes{view("n1", 16, 8), view("n2", 16, 8), view("n3", 16), view("n4", 16, 8)};
    for (std::size_t i = 0; i < 5; ++i) nodes[0].gpus_free[i] = Amount{0};
    nodes[3].state = NodeState::draining;
    const auto answer = explain_placement(nodes, gang(Strategy::pack, 4, bundle(1, units(4))));
    CHECK(answer.verdict == Verdict::pending);
    CHECK(reason(answer, "n1") == "3 of 8 GPUs untouched, bundle needs 4");
    CHECK(reason(answer, "n2") == "holds 2 of 4 bundles");
    CHECK(reason(answer, "n3") == "has no GPU, bundle needs 4");
    CHECK(reason(answer, "n4") == "draining, takes no new bundle");
    CHECK(answer.nearest_change == "would start now with scaling.workers=2, or with node n4 undrained");
    CHECK(explain_placement(nodes, gang(Strategy::strict_pack, 3, bundle(6))).nearest_change ==
          "would start now with scaling.placement=PACK, or with scaling.workers=2");
}

TEST_CASE(
    "the nearest change is one that does: a label dropped, a node undrained, a smaller bundle, later when not now") {
    std::vector<NodeView> nodes{view("a", 8, 0, {{"zone", "us"}, {"disk", "nvme"}}), view("b", 4)};
    GangRequest request = gang(Strategy::pack, 1, bundle(6));
    request.bundles[0].selector = {{.key = "disk", .values = {"nvme"}, .negated = false},
                                   {.key = "zone", .values = {"eu"}, .negated = false}};
    CHECK(explain_placement(nodes, request).nearest_change == "would start now without scaling.label_selector.zone");
    nodes[0].state = NodeState::draining;
    CHECK(explain_placement(nodes, gang(Strategy::pack, 1, bundle(6))).nearest_change ==
          "would start now with node a undrained");
    nodes[0].state = NodeState::lost;
    CHECK(explain_placement(nodes, gang(Strategy::pack, 1, bundle(6))).nearest_change ==
          "would start now with resources_per_worker.CPU=4");
    nodes[1].free = {};
    CHECK(explain_placement(nodes, gang(Strategy::pack, 5, bundle(1))).nearest_change ==
          "would start once others have ended with scaling.workers=4");
    CHECK(explain_placement({}, gang(Strategy::pack, 5, bundle(1))).reasons.at(0).text == "there is no node");
}

TEST_CASE("the nearest change of several amounts at once, of a part of a GPU, and of unlike bundles") {
    std::vector<NodeView> nodes{view("a", 16, 4), view("b", 8, 2)};
    const auto nearest = [&](const GangRequest& request) { return explain_placement(nodes, request).nearest_change; };
    CHECK(nearest(gang(Strategy::pack, 1, bundle(32, units(8)))) ==
          "would start now with resources_per_worker.CPU=16 and resources_per_worker.GPU=4");
    GangRequest unlike = gang(Strategy::pack, 1, bundle(1));
    unlike.bundles.push_back(bundle(20));
    CHECK(nearest(unlike) == "would start now with bundle 1 CPU=16");
    nodes = {view("a", 8, 2)};
    nodes[0].gpus_free.assign(2, Amount{5'000});
    CHECK(nearest(gang(Strategy::pack, 1, bundle(1, Amount{6'000}))) ==
          "would start now with resources_per_worker.GPU=0.5");
    CHECK(nearest(gang(Strategy::pack, 1, bundle(1, units(1)))) == "would start now with resources_per_worker.GPU=0.5");
    nodes[0].free["CPU"] = Amount{0};
    CHECK(nearest(gang(Strategy::pack, 1, bundle(9, units(3)))) ==
          "would start once others have ended with resources_per_worker.CPU=8 and resources_per_worker.GPU=2");
}

namespace {

// Returns true if some assignment of `left` equal bundles to the nodes exists. Tries all counts per node.
bool some_assignment(const std::vector<std::uint32_t>& room, std::size_t at, std::uint32_t left, std::uint32_t nodes) {
    if (left == 0) return true;
    if (at == room.size() || nodes == 0) return false;
    for (std::uint32_t take = 0; take <= std::min(room[at], left); ++take)
        if (some_assignment(room, at + 1, left - take, take == 0 ? nodes : nodes - 1)) return true;
    return false;
}

}  // namespace

TEST_CASE("PACK is exact: as few nodes as the best of all assignments") {
    std::uint32_t seed = 1;
    const auto dice = [&](std::uint32_t sides) { return (seed = seed * 1'664'525 + 1'013'904'223) / 65'536 % sides; };
    for (int round = 0; round < 500; ++round) {
        std::vector<NodeView> nodes;
        std::vector<std::uint32_t> room;
        for (std::uint32_t i = 0, count = 1 + dice(6); i < count; ++i) {
            room.push_back(dice(6));
            nodes.push_back(view("n" + std::to_string(i), room.back()));
        }
        const std::uint32_t wanted = 1 + dice(12);
        const auto answer = place(nodes, gang(Strategy::pack, wanted, bundle(1)));
        std::uint32_t fewest = 1;
        while (fewest <= room.size() && !some_assignment(room, 0, wanted, fewest)) ++fewest;
        CHECK((answer.verdict == Verdict::feasible_now) == (fewest <= room.size()));
        if (answer.verdict != Verdict::feasible_now) continue;
        const auto names = nodes_of(answer);
        CHECK(std::set<std::string>(names.begin(), names.end()).size() == fewest);
    }
}

namespace {

Bundle on(std::int64_t cpus, const std::vector<std::pair<std::string, std::string>>& labels) {
    Bundle made = bundle(cpus);
    for (const auto& [key, value] : labels) made.selector.push_back({.key = key, .values = {value}});
    return made;
}

bool all_where_they_may(const std::vector<NodeView>& nodes, const GangRequest& request, const Seats& seats) {
    for (std::size_t i = 0; i < seats.size(); ++i) {
        const auto at = std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.id == seats[i].node; });
        if (at == nodes.end() || !matches(request.bundles[i].selector, at->labels)) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("many bundles that differ in their labels alone: what is scarce goes to those that need it") {
    std::vector<NodeView> nodes;
    for (int i = 1; i <= 10; ++i) {
        nodes.push_back(view(std::string("n") + (i < 10 ? "0" : "") + std::to_string(i), 1, 0, {{"zone", "a"}}));
        if (i <= 5) nodes.back().labels["disk"] = "ssd";
    }
    for (const Strategy strategy : {Strategy::pack, Strategy::spread}) {
        GangRequest request = gang(strategy, 5, on(1, {{"zone", "a"}}));
        for (int i = 0; i < 5; ++i) request.bundles.push_back(on(1, {{"zone", "a"}, {"disk", "ssd"}}));
        const PlacementAnswer answer = place(nodes, request);
        REQUIRE(answer.verdict == Verdict::feasible_now);
        CHECK(all_where_they_may(nodes, request, answer.seats));
        request.bundles.push_back(on(1, {{"disk", "ssd"}}));
        const PlacementAnswer never = place(nodes, request);
        CHECK((never.verdict == Verdict::infeasible && never.proved));
    }
}

TEST_CASE("bundles that differ in their labels alone find room exactly where the best of all assignments does") {
    std::uint32_t state = 20261123;
    const auto below = [&](std::uint32_t limit) {
        state = state * 1664525u + 1013904223u;
        return (state >> 16) % limit;
    };
    int placed = 0, refused = 0;
    for (int round = 0; round < 3'000; ++round) {
        std::vector<NodeView> nodes;
        for (std::uint32_t i = 0, count = 1 + below(5); i < count; ++i) {
            nodes.push_back(view("n" + std::to_string(i), 1 + below(4), 0));
            for (const char* key : {"x", "y"})
                if (below(3) != 0) nodes.back().labels[key] = std::to_string(below(2));
        }
        GangRequest request = gang(below(2) == 0 ? Strategy::pack : Strategy::spread, 0, {});
        for (std::uint32_t i = 0, count = 1 + below(8); i < count; ++i) {
            request.bundles.push_back(bundle(1));
            for (const char* key : {"x", "y"})
                if (below(3) == 0)
                    request.bundles.back().selector.push_back(
                        {.key = key, .values = {std::to_string(below(2))}, .negated = below(4) == 0});
        }
        const auto open = placing::candidates(nodes, request, placing::Capacity::free);
        const placing::Wanted wanted = placing::wanted_of(request);
        const auto matched = placing::place_by_labels(open, wanted);
        const auto best = placing::place_exactly(open, wanted);
        REQUIRE((matched && best && matched->proved && best->proved));
        REQUIRE(matched->seats.has_value() == best->seats.has_value());
        if (!matched->seats) {
            ++refused;
            continue;
        }
        ++placed;
        REQUIRE(all_where_they_may(nodes, request, *matched->seats));
        for (const NodeView& node : nodes)
            REQUIRE(std::count_if(matched->seats->begin(), matched->seats->end(), [&](const Seat& seat) {
                        return seat.node == node.id;
                    }) <= amount_of(node.free, "CPU").ticks / Amount::per_unit);
    }
    CHECK((placed > 500 && refused > 500));
}

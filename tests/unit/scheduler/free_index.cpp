// The free index gives the same answers as a search through all nodes, after any sequence of changes. Amounts are
// exact.
#include "scheduler/placement/free_index.hpp"

#include <algorithm>

#include "scheduler/placement/placement.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using stories::bundle;

namespace {

struct Dice {
    std::uint64_t state = 1;
    std::uint32_t operator()(std::uint32_t sides) {
        state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
        return static_cast<std::uint32_t>(state >> 33U) % sides;
    }
};

NodeView view(Dice& dice, std::uint32_t name) {
    NodeView made{.id = {"n" + std::to_string(name)}};
    made.total["CPU"] = units(1 + dice(12));
    made.free = made.total;
    made.gpus_free.assign(dice(3) == 0 ? 0 : 1 + dice(4), units(1));
    made.labels["zone"] = dice(2) == 0 ? "eu" : "us";
    if (dice(8) == 0) made.state = NodeState::draining;
    return made;
}

GangRequest gang(Dice& dice) {
    static const std::vector<Amount> gpus{{0}, {0}, units(1), units(1), units(2), {5'000}, {3'000}};
    GangRequest request;
    request.strategy = static_cast<Strategy>(dice(4));
    Bundle shape = bundle(1 + dice(3), gpus[dice(7)]);
    if (dice(6) == 0) shape.selector.push_back({.key = "zone", .values = {"eu"}, .negated = false});
    request.bundles.assign(1 + dice(dice(3) == 0 ? 30 : 6), shape);
    if (dice(10) == 0) request.bundles.back().demand["CPU"] = units(2);  // bundles that differ are supported as well
    return request;
}

struct Held {
    GangRequest request;
    Seats seats;
};

// Makes `rounds` random changes. Compares the index with the naive search after each.
void walk(std::uint64_t seed, int rounds) {
    Dice dice{seed};
    FreeIndex index;
    std::vector<Held> held;
    std::uint32_t names = 0;
    for (int round = 0; round < rounds; ++round) {
        const std::uint32_t what = dice(20);
        if (what < 3 || index.nodes().empty()) index.put(view(dice, names++ % 40));  // a new node, or a changed one
        if (what == 3) index.erase({"n" + std::to_string(dice(40))});
        if (what == 4 && !held.empty()) {
            std::swap(held[dice(static_cast<std::uint32_t>(held.size()))], held.back());
            const auto here = [&](const Seat& seat) { return index.find(seat.node) != nullptr; };
            if (std::all_of(held.back().seats.begin(), held.back().seats.end(), here))
                index.give(held.back().request, held.back().seats);
            held.pop_back();
        }
        const GangRequest request = gang(dice);
        const PlacementAnswer answer = index.place(request), naive = place(index.nodes(), request);
        REQUIRE(answer.verdict == naive.verdict);
        REQUIRE(answer.seats == naive.seats);
        REQUIRE(index.faults() == std::vector<std::string>{});
        if (answer.verdict != Verdict::feasible_now) continue;
        index.take(request, answer.seats);
        held.push_back({request, answer.seats});
    }
}

}  // namespace

TEST_CASE("the index answers like a look at every node, after any deltas") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) walk(seed, 300);
}

TEST_CASE("a gang that was prepared is refused from totals, and placed once there is room") {
    FreeIndex index;
    NodeView node{.id = {"a"}};
    node.total["CPU"] = units(8);
    node.gpus_free.assign(4, units(1));
    index.put(node);
    GangRequest request;
    request.bundles.assign(3, bundle(1, units(1)));
    const auto asked = index.prepare(request);
    REQUIRE(asked.has_value());
    CHECK(index.verdict(*asked) == Verdict::pending);
    node.free = node.total;
    index.put(node);
    CHECK(index.verdict(*asked) == Verdict::feasible_now);
    node.state = NodeState::draining;
    index.put(node);
    CHECK(index.verdict(*asked) == Verdict::infeasible);
}

TEST_CASE("shapes that nobody asks for are forgotten, and prepared again when needed") {
    FreeIndex index;
    NodeView node{.id = {"a"}};
    node.total["CPU"] = node.free["CPU"] = units(1'000);
    index.put(node);
    GangRequest request;
    request.bundles.assign(2, bundle(1));
    const auto first = index.prepare(request);
    for (std::int64_t cpus = 2; cpus < 400; ++cpus) {
        GangRequest other;
        other.bundles.assign(1, bundle(cpus));
        CHECK(index.place(other).verdict == Verdict::feasible_now);
    }
    CHECK(!index.knows(*first));
    CHECK(index.place(request).verdict == Verdict::feasible_now);
}

TEST_CASE("random takes and gives leave the sums exact") {
    Dice dice;
    const Resources all{{"CPU", units(1'000)}, {"memory", units(1'000'000'000'000)}, {"x", Amount{12'345}}};
    Resources free = all;
    std::vector<Resources> taken;
    for (int i = 0; i < 1'000'000; ++i) {
        const Resources demand{{"CPU", Amount{1 + dice(9'999)}}, {"memory", Amount{1 + dice(1'000'000'000)}}};
        if (dice(2) == 0 && demand.at("CPU") <= amount_of(free, "CPU")) {
            subtract(free, demand);
            taken.push_back(demand);
        } else if (!taken.empty()) {
            std::swap(taken[dice(static_cast<std::uint32_t>(taken.size()))], taken.back());
            add(free, taken.back());
            taken.pop_back();
        }
    }
    for (const Resources& demand : taken) add(free, demand);
    CHECK(free == all);
}

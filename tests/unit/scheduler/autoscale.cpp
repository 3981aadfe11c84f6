// The demand by shape, and the nodes that the autoscaler orders and releases.
#include "scheduler/autoscale/autoscale.hpp"

#include <random>
#include <set>

#include "scheduler/autoscale/demand.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

NodeRegistered labelled(const std::string& name, std::int64_t cpus = 4, std::uint32_t gpus = 2) {
    NodeRegistered event = node(name, cpus, gpus);
    event.labels[autoscale_label] = "true";
    return event;
}

struct Scaled : World {
    AutoscalePolicy policy{.node = {.total = {{"CPU", units(4)}}, .gpus = 2, .labels = {{autoscale_label, "true"}}},
                           .max = 4,
                           .idle = {600'000},
                           .cooldown = {60'000},
                           .timeout = {300'000}};
    AutoscaleState state;

    NodesNeeded needed() { return nodes_needed(autoscale_question(cluster, policy, state)); }
    AutoscaleStep look() {
        (void)observe(cluster, policy, state, now);
        return autoscale_step(cluster, policy, state, needed(), now);
    }
    void ordered(std::uint32_t nodes, const std::set<NodeId>& names = {}) {  // records an order command that succeeded
        order_begins(policy, state, nodes, now);
        order_ended(policy, state, CommandResult::done, names, now);
    }
    void released(const NodeId& id, CommandResult result) { release_ended(policy, state, id, result, now); }
    void drain(const NodeId& id) { tell(NodeDrained{.node = id, .by = autoscale_user, .reason = "idle"}); }
};

AutoscaleStep orders(std::uint32_t nodes) { return {.order = nodes, .drain = {}, .release = {}, .undrain = {}}; }
AutoscaleStep drains(const char* node) { return {.order = 0, .drain = NodeId{node}, .release = {}, .undrain = {}}; }
AutoscaleStep releases(const char* node) { return {.order = 0, .drain = {}, .release = NodeId{node}, .undrain = {}}; }
AutoscaleStep undrains(const char* node) { return {.order = 0, .drain = {}, .release = {}, .undrain = {NodeId{node}}}; }
const AutoscaleStep nothing;

}  // namespace

TEST_CASE("demand counts what waits by shape, the largest first, and leaves out who waits for others") {
    World world;
    world.submit({.name = "a", .workers = 3, .cpus = 2, .gpus = units(1)});
    world.submit({.name = "b", .workers = 5, .cpus = 2, .gpus = units(1)});
    world.submit({.name = "c", .workers = 2, .cpus = 8});
    world.submit({.name = "after", .cpus = 1, .after = {{.run = {3}}}});
    const std::vector<Demand> demand = waiting_demand(world.cluster);
    REQUIRE(demand.size() == 2);
    CHECK(demand[0] == Demand{.demand = {{"CPU", units(2)}, {"GPU", units(1)}}, .runs = 2, .bundles = 8, .largest = 5});
    CHECK(demand[1] == Demand{.demand = {{"CPU", units(8)}}, .runs = 1, .bundles = 2, .largest = 2});
}

TEST_CASE("as many nodes are ordered as what waits needs, beside what is free, within the limit") {
    Scaled world;
    CHECK(world.look() == nothing);
    world.tell(node("n1", 4, 2));
    world.submit({.name = "fits", .workers = 2, .cpus = 1, .gpus = units(1)});
    CHECK(world.look() == nothing);  // the run was placed
    world.submit({.name = "three", .workers = 5, .cpus = 1, .gpus = units(1)});
    CHECK(world.look() == orders(3));
    world.submit({.name = "more", .workers = 20, .cpus = 1, .gpus = units(1)});
    CHECK(world.look() == orders(3));  // four nodes would not hold it, so no node is ordered for it
    world.submit({.name = "one", .workers = 1, .cpus = 1, .gpus = units(1)});
    CHECK(world.look() == orders(3));  // the third ordered node has room for it
    world.submit({.name = "two", .workers = 1, .cpus = 1, .gpus = units(2)});
    CHECK(world.look() == orders(4));
    world.submit({.name = "two-more", .workers = 1, .cpus = 1, .gpus = units(2)});
    CHECK(world.look() == orders(4));  // max
}

TEST_CASE("of the nodes, those are looked at that have room for some bundle of what waits") {
    Scaled world;
    const auto looked_at = [&] {
        std::vector<std::string> names;
        for (const NodeView& node : autoscale_question(world.cluster, world.policy, world.state).nodes)
            names.push_back(node.id.value);
        return names;
    };
    world.tell(node("n1", 4, 2));
    world.tell(node("n2", 4, 2));
    world.tell(node("n3", 8));
    CHECK(looked_at().empty());  // no run waits
    world.running({.name = "half", .cpus = 2, .gpus = units(2)});
    world.submit({.name = "large", .workers = 2, .cpus = 1, .gpus = units(2)});
    CHECK(looked_at() == std::vector<std::string>{"n2"});
    world.submit({.name = "cpus", .workers = 2, .cpus = 7});
    CHECK(looked_at() == std::vector<std::string>{"n1", "n2", "n3"});  // the smallest demand is one CPU
}

TEST_CASE("what no ordered node could hold orders nothing") {
    Scaled world;
    world.submit({.name = "large", .cpus = 5});
    world.submit({.name = "together", .workers = 3, .cpus = 1, .gpus = units(1), .placement = Strategy::strict_pack});
    CHECK(world.look() == nothing);
    world.submit({.name = "apart", .workers = 2, .cpus = 1, .placement = Strategy::strict_spread});
    CHECK(world.look() == orders(2));
}

TEST_CASE("what was ordered is not ordered again, until it has joined or its time is over") {
    Scaled world;
    world.submit({.name = "four", .workers = 4, .cpus = 1, .gpus = units(1)});
    CHECK(world.look() == orders(2));
    world.ordered(2);
    world.now.ms += 60'000;
    CHECK(world.look() == nothing);
    world.tell(labelled("n1"));
    CHECK(world.look() == nothing);
    CHECK(world.state.ordered == std::vector<Ordered>{{.nodes = 1, .until = {301'000}}});
    world.now.ms += 240'000;
    CHECK(observe(world.cluster, world.policy, world.state, world.now) == 1);  // the ordered node never joined
    CHECK(world.look() == nothing);
    world.now.ms += 60'000;
    CHECK(world.look() == orders(1));
    world.ordered(1);
    world.tell(labelled("n2"));  // the gang starts
    CHECK(world.look() == nothing);
    CHECK(world.state.ordered.empty());
}

TEST_CASE("a failed order is taken back and tried again after the cooldown") {
    Scaled world;
    world.submit({.name = "one", .cpus = 1});
    order_begins(world.policy, world.state, 1, world.now);
    CHECK(world.look() == nothing);  // the command is running
    order_ended(world.policy, world.state, CommandResult::failed, {}, world.now);
    CHECK(world.look() == nothing);
    world.now.ms += 59'999;
    CHECK(world.look() == nothing);
    world.now.ms += 1;
    CHECK(world.look() == orders(1));
    order_begins(world.policy, world.state, 1, world.now);
    order_ended(world.policy, world.state, CommandResult::failed, {}, world.now);
    world.now.ms += 119'999;  // the delay doubles with each failure in a row
    CHECK(world.look() == nothing);
    world.now.ms += 1;
    CHECK(world.look() == orders(1));
}

TEST_CASE("an order whose command was ended may have been carried out, and is waited for") {
    Scaled world;
    world.submit({.name = "one", .cpus = 1});
    order_begins(world.policy, world.state, 1, world.now);
    order_ended(world.policy, world.state, CommandResult::ended, {}, world.now);
    world.now.ms += 299'999;
    CHECK(world.look() == nothing);
    world.tell(labelled("n1"));
    CHECK(world.look() == nothing);
    CHECK(world.state.failures == 0);
    CHECK(world.state.ordered.empty());
}

TEST_CASE("a machine that was named and never joined is given back, and counts against the limit until then") {
    Scaled world;
    world.policy.max = 3;
    world.submit({.name = "six", .workers = 6, .cpus = 1, .gpus = units(1)});
    CHECK(world.look() == orders(3));
    world.ordered(3, {{"m1"}, {"m2"}, {"m3"}});
    world.tell(labelled("m2"));
    world.now.ms += 299'999;
    CHECK(world.look() == nothing);
    world.now.ms += 1;
    CHECK(world.look() == releases("m3"));
    CHECK(world.state.ordered.empty());
    CHECK(may_release(world.cluster, world.state, {"m3"}));
    CHECK_FALSE(may_release(world.cluster, world.state, {"m2"}));
    CHECK_FALSE(may_release(world.cluster, world.state, {"m4"}));
    world.released({"m3"}, CommandResult::done);
    CHECK(world.look() == releases("m1"));
    world.now.ms += 60'000;
    CHECK(autoscale_question(world.cluster, world.policy, world.state).room == 1);
    world.released({"m1"}, CommandResult::done);
    CHECK(world.look() == orders(2));
}

TEST_CASE("a machine that joins late, or whose name a node of a person has, is not given back") {
    Scaled world;
    world.ordered(3, {{"m1"}, {"m2"}, {"m3"}});
    world.tell(node("m3"));
    world.now.ms += 300'000;
    CHECK(world.look() == releases("m2"));
    world.tell(labelled("m2"));
    CHECK_FALSE(may_release(world.cluster, world.state, {"m2"}));
    CHECK(world.look() == releases("m1"));
    world.tell(node("m1"));
    CHECK(world.look() == nothing);
    CHECK(world.state.unjoined.empty());
}

TEST_CASE("a lost node does not stand for the new machine of its name") {
    Scaled world;
    world.tell(labelled("m1"));
    world.tell(NodeLost{.node = {"m1"}, .why = "silent"});
    (void)world.look();
    world.ordered(1, {{"m1"}});
    (void)world.look();
    CHECK(world.state.ordered.size() == 1);
    world.tell(labelled("m1"));
    (void)world.look();
    CHECK(world.state.ordered.empty());
}

TEST_CASE("of an order whose machines join under other names than were told none is given back") {
    Scaled world;
    world.ordered(2, {{"m1"}, {"m2"}});
    world.tell(labelled("m1.example.org"));
    world.now.ms += 300'000;
    CHECK(observe(world.cluster, world.policy, world.state, world.now) == 1);
    CHECK(world.state.unjoined.empty());
}

TEST_CASE("there are as many machines as the command has named, also when it failed then") {
    Scaled world;
    world.submit({.name = "six", .workers = 6, .cpus = 1, .gpus = units(1)});
    world.ordered(3, {{"m1"}, {"m2"}});  // the cloud had only two nodes
    world.now.ms += 60'000;
    CHECK(world.look() == orders(1));
    order_begins(world.policy, world.state, 1, world.now);
    order_ended(world.policy, world.state, CommandResult::failed, {{"m3"}}, world.now);
    world.now.ms += 60'000;
    CHECK(world.look() == nothing);
    world.now.ms += 240'000;
    (void)world.look();
    CHECK(world.state.unjoined.size() == 3);

    Scaled other;
    order_begins(other.policy, other.state, 3, other.now);
    // The command may have ended before it named all nodes.
    order_ended(other.policy, other.state, CommandResult::ended, {{"m1"}}, other.now);
    CHECK(autoscale_question(other.cluster, other.policy, other.state).ordered == 3);
    other.tell(labelled("n1"));
    other.now.ms += 300'000;
    CHECK(other.look() == releases("m1"));
}

TEST_CASE("giving a machine back that never joined is tried eight times, and as long as the command puts it off") {
    Scaled world;
    world.ordered(1, {{"m1"}});
    world.now.ms += 300'000;
    for (int i = 0; i < 20; ++i) {
        CHECK(world.look() == releases("m1"));
        world.released({"m1"}, CommandResult::not_now);
        world.now.ms += 599'999;
        CHECK(world.look() == nothing);
        world.now.ms += 1;
    }
    int tries = 0;
    for (int minute = 0; minute < 24 * 60; ++minute) {
        if (world.look().release) {
            ++tries;
            world.released({"m1"}, CommandResult::failed);
        }
        world.now.ms += 60'000;
    }
    CHECK(tries == 8);
    CHECK(world.state.unjoined.empty());
}

TEST_CASE("whatever the wall clock did between two heads, orders wait a minute at least, and no longer than new ones") {
    Scaled world;
    world.now.ms = 100'000'000;
    const auto at = [&](std::int64_t ms) { return Time{world.now.ms + ms}; };
    world.state.ordered = {{.nodes = 1, .until = at(-86'400'000)}, {.nodes = 1, .until = at(86'400'000)}};
    world.state.unjoined[{"m1"}] = {.after = at(86'400'000)};
    world.state.order_after = at(86'400'000);
    restored(world.policy, world.state, world.now);
    CHECK(world.state.ordered ==
          std::vector<Ordered>{{.nodes = 1, .until = at(60'000)}, {.nodes = 1, .until = at(600'000)}});
    CHECK(world.state.unjoined.at({"m1"}).after == at(600'000));
    CHECK(world.state.order_after == at(60'000));
}

TEST_CASE("machines that never join are ordered more and more seldom, and as before once an order has joined") {
    Scaled world;
    world.submit({.name = "one", .cpus = 1});
    int orders_of_a_week = 0;
    for (int i = 0; i < 7 * 24 * 60; ++i) {
        const AutoscaleStep step = world.look();
        if (step.order > 0) {
            world.ordered(step.order);
            ++orders_of_a_week;
        }
        world.now.ms += 60'000;
    }
    CHECK(orders_of_a_week < 20);
    world.ordered(1);
    world.tell(labelled("n1"));
    (void)world.look();
    CHECK(world.state.failures == 0);
}

TEST_CASE("machines that join do not shorten the pause for those beside them that never do") {
    Scaled world;
    world.policy.max = 1'000;
    std::uint32_t made = 0, machines = 0, orders_of_six_hours = 0;
    const auto submit = [&](std::uint32_t count) {
        while (count-- > 0) world.submit({.name = "run-" + std::to_string(made++), .cpus = 4});
    };
    submit(3);
    for (int minute = 0; minute < 360; ++minute) {
        if (const std::uint32_t count = world.look().order; count > 0) {
            ++orders_of_six_hours;
            world.ordered(count);
            for (std::uint32_t i = 1; i < count; ++i) world.tell(labelled("n" + std::to_string(++machines)));
            submit(count - 1);  // as many runs wait as before
        }
        world.now.ms += 60'000;
    }
    CHECK(machines > 7);
    CHECK(orders_of_six_hours < 30);
}

TEST_CASE("runs that no machine could hold do not hide those behind them, however many they are") {
    Scaled world;
    for (int i = 0; i < 200; ++i) world.submit({.name = "large-" + std::to_string(i), .cpus = 5 + i, .priority = 90});
    for (int i = 0; i < 200; ++i) world.submit({.name = "same-" + std::to_string(i), .cpus = 5, .priority = 80});
    world.submit({.name = "one", .cpus = 1});
    int looks = 0;
    for (AutoscaleStep step; step.order == 0 && looks < 20; ++looks) {
        const NodesNeeded needed = world.needed();
        note_hopeless(world.state, needed, world.now);
        step = autoscale_step(world.cluster, world.policy, world.state, needed, world.now);
        world.now.ms += 5'000;
    }
    CHECK(looks < 10);
    world.now.ms += 600'000;  // a failure is forgotten after a while
    (void)world.look();
    CHECK(world.state.hopeless.empty());
}

TEST_CASE("a node that came back under its name has not joined anew") {
    Scaled world;
    world.tell(labelled("n1"));
    (void)observe(world.cluster, world.policy, world.state, world.now);
    world.ordered(1);
    world.tell(NodeLost{.node = {"n1"}, .why = "silent"});
    (void)world.look();
    world.tell(labelled("n1"));
    (void)world.look();
    CHECK(world.state.ordered.size() == 1);
}

TEST_CASE("an idle node is drained first, and given back once it is empty still") {
    Scaled world;
    world.tell(labelled("n1"));
    CHECK(world.look() == nothing);
    world.now.ms += 599'999;
    CHECK(world.look() == nothing);
    world.now.ms += 1;
    CHECK(world.look() == drains("n1"));
    world.drain({"n1"});
    CHECK(world.look() == releases("n1"));
    release_ended(world.policy, world.state, {"n1"}, CommandResult::done, world.now);
    world.tell(NodeLeft{{"n1"}});
    CHECK(world.look() == nothing);
}

TEST_CASE("nodes of people, and those with work, stay") {
    Scaled world;
    world.tell(node("n1"));
    world.tell(labelled("n2"));
    world.running({.name = "busy", .cpus = 4, .gpus = units(1)});
    world.running({.name = "busy-2", .cpus = 4});
    (void)world.look();
    world.now.ms += 6'000'000;
    CHECK(world.look() == nothing);
}

TEST_CASE("a node that people have drained is not given back") {
    Scaled world;
    world.tell(labelled("n1"));
    world.tell(NodeDrained{.node = {"n1"}, .by = "ana", .reason = "repair"});
    (void)world.look();
    world.now.ms += 6'000'000;
    CHECK(world.look() == nothing);
}

TEST_CASE("work that came between the drain and the command keeps the node") {
    Scaled world;
    world.tell(labelled("n1"));
    world.running({.name = "late", .cpus = 4});
    world.drain({"n1"});
    CHECK(world.look() == undrains("n1"));
}

TEST_CASE("a machine may go while the autoscaler has its node drained, and nothing runs there") {
    Scaled world;
    world.tell(labelled("n1"));
    world.tell(node("n2", 4, 2));
    CHECK_FALSE(may_release(world.cluster, world.state, {"n1"}));  // in use
    CHECK_FALSE(may_release(world.cluster, world.state, {"gone"}));
    world.drain({"n1"});
    world.drain({"n2"});
    CHECK(may_release(world.cluster, world.state, {"n1"}));
    CHECK_FALSE(may_release(world.cluster, world.state, {"n2"}));  // a person drained it
    world.tell(NodeDrained{.node = {"n1"}, .by = "ana", .reason = "repair"});
    CHECK_FALSE(may_release(world.cluster, world.state, {"n1"}));
    world.tell(NodeUndrained{{"n1"}});
    CHECK_FALSE(may_release(world.cluster, world.state, {"n1"}));
}

TEST_CASE("a drained node is taken back before another is ordered") {
    Scaled world;
    world.tell(labelled("n1"));
    world.drain({"n1"});
    world.submit({.name = "comes", .cpus = 4});
    CHECK(world.look() == undrains("n1"));
    world.tell(NodeUndrained{{"n1"}});
    CHECK(world.look() == nothing);  // the run was placed there
}

TEST_CASE("a node that a waiting run has reserved is not idle") {
    Scaled world;
    world.policy.max = 2;
    world.tell(labelled("n1"));
    world.tell(labelled("n2"));
    world.running({.name = "half", .workers = 1, .cpus = 4, .gpus = units(2)});
    world.submit({.name = "both", .workers = 2, .cpus = 4, .gpus = units(2)});
    (void)world.look();
    world.now.ms += 6'000'000;
    CHECK(world.look() == nothing);
}

TEST_CASE("what a run has reserved that gets no node is no room for those behind it") {
    Scaled world;
    world.tell(labelled("n1"));
    world.running({.name = "holder", .cpus = 1, .gpus = units(1)});
    RunSubmitted pinned = submission({.name = "pinned", .cpus = 4});  // a new node is not n1
    pinned.spec.gang.nodes_only = {{"n1"}};
    world.tell(pinned);
    world.submit({.name = "behind", .cpus = 2});
    const AutoscaleQuestion question = autoscale_question(world.cluster, world.policy, world.state);
    const NodesNeeded needed = nodes_needed(question);
    CHECK(needed.nodes == 1);
    CHECK_FALSE(needed.used.contains({"n1"}));
}

TEST_CASE("sets of pods become smaller from their end, one node at a time") {
    Scaled world;
    for (const char* name : {"n2", "n9", "n10"}) world.tell(labelled(name));
    (void)world.look();
    world.now.ms += 600'000;
    CHECK(world.look() == drains("n10"));
}

TEST_CASE("a command that puts a node off lets it be idle again from then on") {
    Scaled world;
    world.tell(labelled("n1"));
    (void)world.look();
    world.now.ms += 600'000;
    world.drain({"n1"});
    release_ended(world.policy, world.state, {"n1"}, CommandResult::not_now, world.now);
    world.tell(NodeUndrained{{"n1"}});
    world.now.ms += 599'999;
    CHECK(world.look() == nothing);
    world.now.ms += 1;
    CHECK(world.look() == drains("n1"));
}

TEST_CASE("a machine of a lost node is given back as well, when it stays lost") {
    Scaled world;
    world.tell(labelled("n1"));
    world.tell(NodeLost{.node = {"n1"}, .why = "silent"});
    (void)world.look();
    world.now.ms += 600'000;
    CHECK(world.look() == drains("n1"));
    world.drain({"n1"});
    CHECK(world.look() == releases("n1"));
}

TEST_CASE("runs that only their quota keeps out order nothing") {
    Scaled world;
    Queues queues;
    queues.rules["default"].quota["CPU"] = units(2);
    world.tell(QueuesConfigured{.queues = queues, .by = "test"});
    world.tell(node("n1", 2));
    world.running({.name = "in", .cpus = 2});
    world.submit({.name = "out", .cpus = 2});
    CHECK(world.look() == nothing);
}

TEST_CASE("what waits together orders no more than its quota lets start") {
    Scaled world;
    Queues queues;
    queues.rules["default"].quota["CPU"] = units(8);
    world.tell(QueuesConfigured{.queues = queues, .by = "test"});
    for (int i = 0; i < 10; ++i) world.submit({.name = "r" + std::to_string(i), .cpus = 4});
    CHECK(world.look() == orders(2));
}

namespace {

// A cluster whose ordered machines join late or never, and whose runs end.
struct Random : Scaled {
    std::mt19937 random;
    std::set<NodeId> coming, stuck;  // ordered machines: `coming` will join, `stuck` will not
    int names = 0;

    explicit Random(unsigned seed) : random(seed) {
        policy.idle = {20'000};
        policy.max = 1 + random() % 5;
    }
    bool chance(unsigned in) { return random() % in == 0; }
    void end(RunId id) {
        const auto workers = attempt(id).workers.size();
        for (std::uint32_t rank = 0; rank < workers; ++rank) exits(id, rank, exit_code(0));
        empties(id);
    }
    void runs_go_on(unsigned ends_in) {
        for (const auto& [id, before] : std::map(cluster.runs)) {
            if (run(id).state == RunState::starting && attempt(id).state == AttemptState::placed) {
                prepare(id);
                start(id);
            }
            if (run(id).state == RunState::running && chance(ends_in)) end(id);
        }
    }
    void machines_come(unsigned one_in) {
        while (!coming.empty() && chance(one_in)) tell(labelled(coming.extract(coming.begin()).value().value));
    }
    std::size_t machines() const { return cluster.nodes.size() + coming.size() + stuck.size(); }
    void order_machines(std::uint32_t count) {
        std::set<NodeId> made;
        while (made.size() < count) made.insert(NodeId{"n" + std::to_string(++names)});
        for (const NodeId& id : made) (chance(5) ? stuck : coming).insert(id);
        ordered(count, made);
    }
    void release(const NodeId& id) {
        REQUIRE(may_release(cluster, state, id));
        if (cluster.nodes.contains(id))
            tell(NodeLeft{id});
        else
            REQUIRE(coming.erase(id) + stuck.erase(id) == 1);
        released(id, CommandResult::done);
    }
    void autoscale() {
        const AutoscaleStep step = look();
        for (const NodeId& id : step.undrain) tell(NodeUndrained{id});
        if (step.order > 0) order_machines(step.order);
        if (step.drain) {
            REQUIRE(cluster.index.on_node(*step.drain).empty());
            drain(*step.drain);
        }
        if (step.release) release(*step.release);
    }
};

}  // namespace

TEST_CASE("whatever comes, no node with work is let go, no more than the limit are there, and in the end none") {
    for (unsigned seed = 0; seed < 30; ++seed) {
        Random world(seed);
        for (int i = 0; i < 120; ++i) {
            world.pass(5'000);
            if (world.chance(3))
                world.submit(
                    {.name = "r" + std::to_string(i), .workers = 1 + unsigned(world.random() % 3), .gpus = units(1)});
            world.runs_go_on(4);
            world.machines_come(2);
            world.autoscale();
            REQUIRE(world.machines() <= world.policy.max);
        }
        for (int i = 0; i < 2'000 && world.machines() > 0; ++i) {
            world.pass(5'000);
            world.runs_go_on(1);
            world.machines_come(1);
            world.autoscale();
        }
        CHECK(world.machines() == 0);
    }
}

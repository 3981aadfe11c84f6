// A simulated node sends the messages of an agent. Its workers end after their time, or when they are stopped.
#include <algorithm>

#include "daemon/agent/simulated/simulated_node.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

constexpr protocol::AttemptRef simulated_attempt{17, 1, 1};

// A head that records all messages, and a clock that jumps from one wake to the next.
struct World {
    explicit World(std::uint64_t seed = 1)
        : node("sim-0001", {.port = 7434, .gpus = 8}, {.seed = seed, .run_ms = 4'000, .wall_minus_now_ms = 0}) {}

    void take(SimulatedDeeds deeds) {
        for (protocol::FromAgent& message : deeds.to_head) heard.push_back(std::move(message));
    }
    void say(protocol::FromHead message) { take(node.on_message(now, std::move(message))); }
    void register_node() {
        take(node.connected(now));
        say(protocol::Welcome{.cluster_id = "c0ffee"});
    }
    void prepare() {
        say(protocol::Prepare{.attempt = simulated_attempt,
                              .claim = true,
                              .world_size = 2,
                              .nodes = {{.node = "sim-0001", .address = "127.0.0.1", .port = 7434, .ranks = {0, 1}}}});
    }
    void launch() {
        say(protocol::Launch{.attempt = simulated_attempt, .workers = {{.rank = 0}, {.rank = 1, .local_rank = 1}}});
    }
    void pass(std::int64_t ms) {
        const Time end = now + Duration{ms};
        for (auto at = node.next_wake(); at && *at <= end; at = node.next_wake()) {
            now = std::max(now, *at);
            take(node.wake(now));
        }
        now = end;
    }
    template <class T>
    std::vector<T> news() const {
        std::vector<T> out;
        for (const protocol::FromAgent& message : heard)
            if (const auto* one = std::get_if<protocol::News>(&message))
                if (const T* here = std::get_if<T>(&one->what)) out.push_back(*here);
        return out;
    }
    template <class T>
    std::size_t count() const {
        return static_cast<std::size_t>(
            std::count_if(heard.begin(), heard.end(), [](const auto& one) { return std::holds_alternative<T>(one); }));
    }

    SimulatedNode node;
    Time now{1'000};
    std::vector<protocol::FromAgent> heard;
};

}  // namespace

TEST_CASE("a simulated node says hello, registers under its label, and beats") {
    World world;
    world.register_node();
    CHECK(std::get<protocol::Hello>(world.heard[0]).node == "sim-0001");
    const auto& registered = std::get<protocol::Register>(world.heard[1]);
    CHECK(registered.labels.at(simulated_label) == "true");
    CHECK(registered.gpus == 8);
    const std::size_t before = world.count<protocol::Heartbeat>();
    world.pass(5'000);
    CHECK(world.count<protocol::Heartbeat>() == before + 5);
}

TEST_CASE("its workers start, run for a seeded time, exit with 0, and its attempt is emptied when the head says so") {
    World world;
    world.register_node();
    world.prepare();
    REQUIRE(world.news<protocol::Prepared>().size() == 1);
    CHECK(world.news<protocol::Prepared>()[0].claimed);
    CHECK(world.news<protocol::Prepared>()[0].master_port >= 20'000);
    world.launch();
    world.pass(1'000);
    CHECK(world.news<protocol::Started>().size() == 2);
    CHECK(world.news<protocol::Exited>().empty());
    world.pass(6'000);
    const auto exited = world.news<protocol::Exited>();
    REQUIRE(exited.size() == 2);
    CHECK((exited[0].cause.success() && exited[1].cause.success()));
    CHECK(exited[0].exit_wall_us == exited[1].exit_wall_us);  // a gang ends together
    world.say(protocol::Stop{.attempt = simulated_attempt, .grace_ms = 0, .why = "ended", .end_as = "SUCCEEDED"});
    CHECK(world.news<protocol::Emptied>().size() == 1);
    CHECK(world.node.workers_ended() == 2);
}

TEST_CASE("a stopped worker dies of its signal before its time") {
    World world;
    world.register_node();
    world.prepare();
    world.launch();
    world.pass(500);
    world.say(protocol::Stop{.attempt = simulated_attempt, .grace_ms = 10'000, .why = "asked", .end_as = "STOPPED"});
    world.pass(100);
    const auto exited = world.news<protocol::Exited>();
    REQUIRE(exited.size() == 2);
    CHECK(exited[0].cause.signal == 15);
    CHECK(exited[0].cause.stopped_by_us);
    CHECK(world.news<protocol::Emptied>().size() == 1);
    world.pass(20'000);
    CHECK(world.news<protocol::Exited>().size() == 2);
}

TEST_CASE("a stop that comes before its workers have started ends them once they have") {
    World world;
    world.register_node();
    world.prepare();
    world.launch();
    world.say(protocol::Stop{.attempt = simulated_attempt, .grace_ms = 1'000, .why = "asked", .end_as = "STOPPED"});
    world.pass(3'000);
    CHECK(world.news<protocol::Exited>().size() == 2);
    CHECK(world.news<protocol::Emptied>().size() == 1);
}

TEST_CASE("run times follow from the seed") {
    const auto ends = [](std::uint64_t seed) {
        World world(seed);
        world.register_node();
        world.prepare();
        world.launch();
        world.pass(10'000);
        return world.news<protocol::Exited>().at(0).exit_wall_us;
    };
    CHECK(ends(1) == ends(1));
    CHECK(ends(1) != ends(2));
}

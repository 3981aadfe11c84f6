// Random walks over every event, valid or not. No event may break an invariant, and `save` must contain the whole
// change.
#include <functional>

#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

class Walk {
  public:
    explicit Walk(std::uint64_t seed) : state_(seed * 2 + 1) {}

    void step() {
        world_.now.ms += dice(1'500);
        world_.tell(some_event());
        if (auto wake = next_wake(world_.cluster); wake && *wake <= world_.now) world_.tell(TimePassed{});
    }
    const Cluster& cluster() const { return world_.cluster; }

  private:
    std::uint64_t dice(std::uint64_t sides) {
        state_ = state_ * 6'364'136'223'846'793'005u + 1'442'695'040'888'963'407u;
        return (state_ >> 33) % sides;
    }
    NodeId some_node() { return {"n" + std::to_string(1 + dice(5))}; }
    RunId some_run() { return {1 + dice(world_.cluster.meta.next_run)}; }
    AttemptId some_attempt() {
        const auto& all = world_.cluster.attempts;
        if (all.empty() || dice(20) == 0) return {some_run(), static_cast<std::uint32_t>(dice(4))};
        auto at = all.end();
        for (std::uint64_t back = 1 + dice(std::min<std::size_t>(all.size(), 6)); back > 0; --back) --at;
        return at->first;
    }
    std::uint32_t incarnation_of(AttemptId id) const {
        const auto entry = world_.cluster.attempts.find(id);
        return entry == world_.cluster.attempts.end() ? 1 : entry->second.incarnation;
    }

    Event registration() {
        NodeRegistered event =
            node(some_node().value, static_cast<std::int64_t>(2 + dice(4)), static_cast<std::uint32_t>(dice(3)));
        for (const auto& [id, attempt] : world_.cluster.attempts)
            if (dice(2) == 0) event.held.push_back(id);
        return event;
    }
    Event submitted() {
        Job job{.name = "job" + std::to_string(dice(12)), .workers = static_cast<std::uint32_t>(1 + dice(5))};
        job.gpus = dice(3) == 0 ? Amount{static_cast<std::int64_t>(1 + dice(4)) * 2'500} : Amount{};
        job.placement = Strategy(dice(4));
        if (dice(3) == 0) job.workers_min = static_cast<std::uint32_t>(1 + dice(job.workers));
        job.max_failures = static_cast<std::int32_t>(dice(4)) - 1;
        job.priority = static_cast<std::int32_t>(dice(3));
        job.wait_for_nodes = dice(2) == 0;
        job.retention.num_to_keep = static_cast<std::uint32_t>(dice(3));
        if (dice(4) == 0) job.wall_time = Duration{30'000};
        if (dice(4) == 0) job.queue_time = Duration{20'000};
        if (dice(4) == 0) job.submit_key = "key" + std::to_string(dice(9));
        RunSubmitted event = submission(job);
        if (dice(4) == 0) event.spec.gang.nodes_only = {some_node(), some_node()};
        if (dice(4) == 0) event.spec.gang.nodes_excluded.insert(some_node());
        return event;
    }
    Event prepared() {
        NodePrepared event{.attempt = some_attempt(), .node = some_node()};
        event.incarnation = incarnation_of(event.attempt);
        if (dice(2) == 0) {
            event.claimed_number = event.attempt.number + static_cast<std::uint32_t>(dice(3));
            event.master_address = "10.0.0.1";
            if (!world_.cluster.checkpoints.empty()) event.from = world_.cluster.checkpoints.begin()->first.directory;
        }
        return event;
    }
    Event validated() {
        CheckpointValidated event{.run = some_run(), .directory = "never-committed", .pending = dice(2) == 0};
        for (const auto& [key, checkpoint] : world_.cluster.checkpoints)
            if (dice(3) == 0) event.run = key.run, event.directory = key.directory;
        if (!event.pending) event.metrics["val"] = static_cast<double>(dice(5));
        return event;
    }
    Event verified() {
        CheckpointVerified event{.run = some_run(), .directory = "never-committed", .wall_ms = 5};
        for (const auto& [key, checkpoint] : world_.cluster.checkpoints)
            if (dice(3) == 0) event.run = key.run, event.directory = key.directory;
        event.faults = static_cast<std::uint32_t>(dice(2));
        return event;
    }
    Event deleted() {  // an agent deletes the checkpoints that it has orders for
        for (const auto& [key, checkpoint] : world_.cluster.checkpoints)
            if (checkpoint.deleting && dice(2) == 0)
                return CheckpointDeleted{.run = key.run, .directory = key.directory};
        return CheckpointDeleted{.run = some_run(), .directory = "never-committed"};
    }
    Duration some_time() { return {static_cast<std::int64_t>(dice(3)) * 1'000}; }
    Event asked() {
        const Duration deadline = some_time();
        switch (dice(5)) {
            case 0:
                return RunCheckpointAsked{.run = some_run(), .by = "ana"};
            case 1:
                return RunStopAsked{.run = some_run(), .by = "ana", .checkpoint = true, .deadline = deadline};
            case 2:
                return RunResizeAsked{.run = some_run(),
                                      .by = "ana",
                                      .workers = static_cast<std::uint32_t>(1 + dice(4)),
                                      .deadline = deadline};
            case 3:
                return RunResizeAsked{
                    .run = some_run(), .by = "ana", .workers = static_cast<std::uint32_t>(1 + dice(4))};
            default:
                return RunStopAsked{.run = some_run(), .by = "ana"};
        }
    }
    Event some_event() {
        switch (dice(23)) {
            case 0:
                return registration();
            case 1:
                return NodeLost{.node = some_node(), .why = "silent"};
            case 2:
                return dice(4) == 0 ? Event{NodeLeft{some_node()}} : Event{HeadStarted{}};
            case 3:
                if (dice(2) == 0) return NodeDrained{.node = some_node(), .by = "ana", .deadline = some_time()};
                return NodeDrained{.node = some_node(), .by = "ana", .reason = ""};
            case 4:
                return NodeUndrained{some_node()};
            case 5:
                return asked();
            case 6:
                return RunRemoved{some_run()};
            case 7:
                return submitted();
            case 8:
                return FirstReport{some_attempt()};
            case 9:
                return NodePrepareFailed{.attempt = some_attempt(),
                                         .incarnation = static_cast<std::uint32_t>(dice(40)),
                                         .node = some_node(),
                                         .why = "no",
                                         .permanent = dice(5) == 0};
            case 10:
                return dice(2) == 0 ? deleted() : dice(2) == 0 ? verified() : validated();
            case 11:
                return CheckpointCommitted{
                    .attempt = some_attempt(), .directory = "c" + std::to_string(dice(30)), .world_size = 1};
            case 12:
                return StopMetricReached{.attempt = some_attempt(), .key = "epoch", .value = 2};
            case 13:
                return registration();
            case 14:
                return of_operators();
            default:
                return of_workers();
        }
    }
    Event of_operators() {
        if (dice(2) == 0) return NodeQuarantined{.node = some_node(), .by = "ana"};
        return RunPriorityChanged{.run = some_run(), .by = "ana", .priority = static_cast<std::int32_t>(dice(101))};
    }
    Event of_workers() {
        switch (dice(8)) {
            case 0:
            case 1:
                return WorkerExited{.attempt = some_attempt(),
                                    .rank = {static_cast<std::uint32_t>(dice(5))},
                                    .cause = dice(3) == 0 ? killed(9) : exit_code(0),
                                    .exit_wall_us = static_cast<std::int64_t>(dice(1'000))};
            case 2:
            case 3:
                return WorkerStarted{
                    .attempt = some_attempt(), .rank = {static_cast<std::uint32_t>(dice(5))}, .pid = 9};
            case 4:
            case 5:
                return NodeEmptied{.attempt = some_attempt(), .node = some_node()};
            default:
                return prepared();
        }
    }

    World world_;
    std::uint64_t state_;
};

}  // namespace

TEST_CASE("no walk over the events breaks an invariant") {
#ifdef NDEBUG
    constexpr std::uint64_t walks = 150;
#else
    constexpr std::uint64_t walks = 50;  // a sanitizer takes ten times as long
#endif
    std::size_t ended = 0, attempts = 0;
    for (std::uint64_t seed = 1; seed <= walks; ++seed) {
        Walk walk(seed);
        for (int i = 0; i < 300; ++i) walk.step();
        for (const auto& [id, run] : walk.cluster().runs) ended += terminal(run.state);
        attempts += walk.cluster().attempts.size();
    }
    CHECK(ended > walks);  // the walks make progress
    CHECK(attempts > 3 * walks);
}

TEST_CASE("the same events give the same state") {
    Walk one(42), two(42);
    for (int i = 0; i < 500; ++i) {
        one.step();
        two.step();
    }
    CHECK(one.cluster() == two.cluster());
}

// Limits of a queue for one user: live runs and GPUs at once.
#include "scheduler/explain/explain.hpp"
#include "scheduler/queue/shares.hpp"
#include "tests/unit/scheduler/limits/stories.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

QueueRules users_may(std::optional<std::int64_t> runs, std::optional<Amount> gpus = {}) {
    QueueRules rules;
    rules.user_runs = runs;
    rules.user_gpus = gpus;
    return rules;
}

}  // namespace

TEST_CASE("one user holds no more GPUs in a queue than it allows") {
    World world;
    configure(world, {{"lab", users_may({}, units(4))}});
    world.nodes(1, 64, 16);
    const RunId three = submit_as(world, "ana", "lab", {.name = "three", .gpus = units(3)});
    const RunId two = submit_as(world, "ana", "lab", {.name = "two", .gpus = units(2)});
    const RunId one = submit_as(world, "ana", "lab", {.name = "one", .gpus = units(1)});
    const RunId plain = submit_as(world, "ana", "lab", {.name = "plain"});
    const RunId five = submit_as(world, "ben", "lab", {.name = "five", .gpus = units(5)});
    CHECK((runs_now(world, three) && runs_now(world, one) && runs_now(world, plain)));
    CHECK(world.run(two).state == RunState::queued);
    CHECK(to_text(world.run(two).reason) ==
          "queue \"lab\" allows one user 4 GPU at once, and its user holds too many for 2 more");
    CHECK(to_text(world.run(five).reason).ends_with("it can never start unless the limit is raised"));
    finish_run(world, three);
    CHECK(runs_now(world, two));
}

TEST_CASE("runs of other users pass those of a user at the limit, of one shape") {
    World world;
    configure(world, {{"lab", users_may(1)}});
    world.nodes(1, 3);
    std::vector<RunId> of_ana;
    for (int i = 0; i < 4; ++i) of_ana.push_back(submit_as(world, "ana", "lab", {.name = "a" + std::to_string(i)}));
    const RunId ben = submit_as(world, "ben", "lab", {.name = "b"});
    const RunId cleo = submit_as(world, "cleo", "lab", {.name = "c"});
    const RunId dora = submit_as(world, "dora", "lab", {.name = "d"});
    CHECK((runs_now(world, of_ana[0]) && runs_now(world, ben) && runs_now(world, cleo)));
    CHECK(world.run(dora).reason.is<reasons::NoRoom>());
    finish_run(world, ben);
    CHECK(runs_now(world, dora));
    CHECK(world.run(of_ana[1]).state == RunState::queued);
    finish_run(world, of_ana[0]);
    CHECK(runs_now(world, of_ana[1]));
    CHECK(world.run(of_ana[2]).state == RunState::queued);
}

TEST_CASE("a limit for one user counts the queues below it") {
    World world;
    configure(world, {{"all", users_may(2)}, {"a", {.parent = "all"}}, {"b", {.parent = "all"}}});
    world.nodes(1, 64);
    const RunId first = submit_as(world, "ana", "a", {.name = "first"});
    const RunId second = submit_as(world, "ana", "b", {.name = "second"});
    const RunId third = submit_as(world, "ana", "a", {.name = "third"});
    CHECK((runs_now(world, first) && runs_now(world, second)));
    CHECK(to_text(world.run(third).reason).starts_with("queue \"all\" allows one user 2 live runs"));
}

TEST_CASE("a raised limit for one user starts the runs that it kept out") {
    World world;
    configure(world, {{"lab", users_may(1)}});
    world.nodes(1, 64);
    submit_as(world, "ana", "lab", {.name = "first"});
    const RunId second = submit_as(world, "ana", "lab", {.name = "second"});
    const RunId third = submit_as(world, "ana", "lab", {.name = "third"});
    configure(world, {{"lab", users_may(2)}});
    CHECK(runs_now(world, second));
    CHECK(
        world.run(third).reason ==
        Reason(reasons::QueueUserLimit{.queue = "lab", .resource = "runs", .requested = units(1), .limit = units(2)}));
    configure(world, {{"lab", {}}});
    CHECK(runs_now(world, third));
}

TEST_CASE("a run that its user's limit keeps out claims no lent quota and preempts no run") {
    World world;
    QueueRules low = users_may(1);
    low.parent = "all";
    low.quota = {{"GPU", units(4)}};
    QueueRules high = low;
    high.user_runs.reset();
    configure(world, {{"all", {.quota = {{"GPU", units(8)}}}}, {"a", low}, {"b", high}});
    world.nodes(1, 64, 16);
    submit_as(world, "ana", "a", {.name = "own", .gpus = units(1)});
    const RunId lent = submit_as(world, "ben", "b", {.name = "lent", .gpus = units(6)});
    const RunId kept_out = submit_as(world, "ana", "a", {.name = "kept-out", .gpus = units(3)});
    const RunId more = submit_as(world, "ben", "b", {.name = "more", .gpus = units(1)});
    CHECK(runs_now(world, lent));
    CHECK(world.run(kept_out).reason.is<reasons::QueueUserLimit>());
    CHECK_FALSE(world.cluster.attempts.begin()->second.request.has_value());
    CHECK(runs_now(world, more));
}

TEST_CASE("an elastic run starts and grows only to its user's limit of GPUs") {
    World world;
    configure(world, {{"lab", users_may({}, units(2))}});
    world.nodes(1, 64, 8);
    const RunId run =
        submit_as(world, "ana", "lab", {.name = "elastic", .workers = 4, .gpus = units(1), .workers_min = 1});
    CHECK(world.attempt(run).workers.size() == 2);
}

// Budgets of GPU hours within a moving window, of a queue and of each user in it.
#include <random>

#include "scheduler/explain/explain.hpp"
#include "scheduler/model/queue_use.hpp"
#include "scheduler/plan.hpp"
#include "tests/unit/scheduler/limits/stories.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

constexpr std::int64_t hour = 3'600'000, day = 24 * hour;

QueueRules user_hours(std::int64_t hours) {
    QueueRules rules;
    rules.user_gpu_hours = units(hours);
    return rules;
}

QueueRules queue_hours(std::int64_t hours) {
    QueueRules rules;
    rules.gpu_hours = units(hours);
    return rules;
}

void begin_run(World& world, RunId id) {
    world.prepare(id);
    world.start(id);
}

void end_workers(World& world, RunId id) {
    const auto workers = static_cast<std::uint32_t>(world.attempt(id).workers.size());
    for (std::uint32_t rank = 0; rank < workers; ++rank) world.exits(id, rank, exit_code(0));
    world.empties(id);
}

// Starts a run with these GPUs, lets it hold them for that time, and ends it.
void use_gpus(World& world, const std::string& user, const std::string& queue, std::int64_t gpus, std::int64_t ms) {
    const RunId id =
        submit_as(world, user, queue, {.name = "used-" + std::to_string(world.now.ms), .gpus = units(gpus)});
    begin_run(world, id);
    world.pass(ms);
    end_workers(world, id);
}

std::string rule_texts(World& world, RunId id) {
    std::string text;
    for (const Rule& rule : explain(world.cluster, world.now, id, JobWords::shown).rules) text += rule.text + "\n";
    return text;
}

const Job gpu_job{.name = "job", .gpus = units(1)};

}  // namespace

TEST_CASE("a run waits once its user's GPU hours are used, until they leave the window") {
    World world;
    configure(world, {{"lab", user_hours(8)}});
    world.nodes(1, 64, 8);
    use_gpus(world, "ana", "lab", 4, 2 * hour);
    const RunId ana = submit_as(world, "ana", "lab", gpu_job);
    const RunId ben = submit_as(world, "ben", "lab", {.name = "ben", .gpus = units(1)});
    const RunId elsewhere = submit_as(world, "ana", "default", {.name = "elsewhere", .gpus = units(1)});
    const RunId plain = submit_as(world, "ana", "lab", {.name = "plain"});
    CHECK(world.run(ana).state == RunState::queued);
    CHECK(to_text(world.run(ana).reason) ==
          "queue \"lab\" gives its user 8 GPU hours within 30 days, and the user has used them");
    CHECK(rule_texts(world, ana) ==
          "quota: queue \"lab\" gives its user 8 GPU hours within 30 days, and the user has used them; the next are "
          "free in 741h59\n"
          "budget: ana has used 8 of 8 GPU hours of queue \"lab\" within 30 days\n");
    CHECK((runs_now(world, ben) && runs_now(world, elsewhere) && runs_now(world, plain)));
    world.pass(30 * day - 2 * hour);
    CHECK(world.run(ana).state == RunState::queued);
    world.pass(day);
    CHECK(runs_now(world, ana));
}

TEST_CASE("a budget of a queue counts all users and the queues below it") {
    World world;
    configure(world, {{"all", queue_hours(10)}, {"a", {.parent = "all"}}, {"b", {.parent = "all"}}});
    world.nodes(1, 64, 8);
    use_gpus(world, "ana", "a", 2, 2 * hour);
    use_gpus(world, "ben", "b", 3, 2 * hour);
    const RunId cleo = submit_as(world, "cleo", "a", gpu_job);
    CHECK(to_text(world.run(cleo).reason) ==
          "queue \"all\" has a budget of 10 GPU hours within 30 days, and its runs have used them");
    CHECK(runs_now(world, submit_as(world, "cleo", "default", {.name = "other", .gpus = units(1)})));
}

TEST_CASE("a running run goes on beyond its budget, also after a failure and a drain") {
    World world;
    configure(world, {{"lab", user_hours(1)}});
    world.nodes(2, 64, 4);
    const RunId id = submit_as(world, "ana", "lab", {.name = "long", .gpus = units(1), .max_failures = 3});
    begin_run(world, id);
    world.pass(3 * hour);
    CHECK(world.run(id).state == RunState::running);
    CHECK_FALSE(world.attempt(id).request.has_value());
    CHECK(world.run(submit_as(world, "ana", "lab", {.name = "more", .gpus = units(1)})).state == RunState::queued);
    world.exits(id, 0, exit_code(1));
    world.empties(id);
    world.pass(20'000);
    CHECK(world.run(id).attempts == 2);
    CHECK(runs_now(world, id));
}

TEST_CASE("budget_preempts: a run is preempted when its budget is used up, and starts again later") {
    World world;
    QueueRules rules = user_hours(2);
    rules.budget_preempts = true;
    configure(world, {{"lab", rules}});
    world.nodes(1, 64, 4);
    const RunId id = submit_as(world, "ana", "lab", gpu_job);
    begin_run(world, id);
    world.pass(2 * hour - 1'000);
    CHECK_FALSE(world.attempt(id).request.has_value());
    world.pass(1'000);
    REQUIRE(world.attempt(id).request.has_value());
    CHECK(world.attempt(id).request->reason == RequestReason::preemption);
    world.commits(id, "checkpoint_000001-a001");
    REQUIRE(world.attempt(id).state == AttemptState::stopping);
    world.exits(id, 0, exit_code(0));
    world.empties(id);
    CHECK(world.run(id).state == RunState::queued);
    CHECK(world.run(id).reason.is<reasons::BudgetUsed>());
    world.pass(29 * day);
    CHECK(world.run(id).state == RunState::queued);
    world.pass(2 * day);
    CHECK(runs_now(world, id));
}

TEST_CASE("budget_preempts: a raised budget withdraws the request") {
    World world;
    QueueRules rules = user_hours(2);
    rules.budget_preempts = true;
    configure(world, {{"lab", rules}});
    world.nodes(1, 64, 4);
    const RunId id = submit_as(world, "ana", "lab", gpu_job);
    begin_run(world, id);
    world.pass(2 * hour);
    REQUIRE(world.attempt(id).request.has_value());
    rules.user_gpu_hours_of["ana"] = units(4);
    configure(world, {{"lab", rules}});
    CHECK_FALSE(world.attempt(id).request.has_value());
    world.pass(hour);
    CHECK(world.run(id).state == RunState::running);
}

TEST_CASE("an admin's budget for one user replaces that of all users at once") {
    World world;
    configure(world, {{"lab", user_hours(1)}});
    world.nodes(1, 64, 8);
    use_gpus(world, "ana", "lab", 1, hour);
    const RunId ana = submit_as(world, "ana", "lab", gpu_job);
    CHECK(world.run(ana).state == RunState::queued);
    QueueRules rules = user_hours(1);
    rules.user_gpu_hours_of = {{"ana", units(2)}, {"ben", units(0)}};
    configure(world, {{"lab", rules}});
    CHECK(runs_now(world, ana));
    const RunId ben = submit_as(world, "ben", "lab", {.name = "ben", .gpus = units(1)});
    CHECK(to_text(world.run(ben).reason) == "queue \"lab\" gives its user no GPU hours");
    configure(world, {{"lab", {}}});
    CHECK(runs_now(world, ben));
    CHECK(world.cluster.budgets.empty());
}

TEST_CASE("a run whose budget is used up gives up its reserved seats") {
    World world;
    configure(world, {{"lab", user_hours(4)}});
    world.nodes(1, 64, 4);
    const RunId half = submit_as(world, "ana", "lab", {.name = "half", .gpus = units(2)});
    begin_run(world, half);
    const RunId whole = submit_as(world, "ana", "lab", {.name = "whole", .gpus = units(4)});
    CHECK_FALSE(world.run(whole).nodes_reserved.empty());
    const RunId ben = submit_as(world, "ben", "default", {.name = "ben", .gpus = units(2)});
    CHECK(world.run(ben).state == RunState::queued);
    world.pass(2 * hour);
    CHECK(world.run(whole).nodes_reserved.empty());
    CHECK(runs_now(world, ben));
}

TEST_CASE("a plan counts budgets") {
    World world;
    configure(world, {{"lab", user_hours(1)}});
    world.nodes(1, 64, 8);
    RunSubmitted event = submission(gpu_job);
    event.spec.queue = "lab";
    CHECK(plan(world.cluster, world.now, event).answer.verdict == Verdict::feasible_now);
    use_gpus(world, "ana", "lab", 1, hour);
    const Plan later = plan(world.cluster, world.now, event);
    CHECK(later.answer.verdict == Verdict::pending);
    CHECK(std::any_of(later.why.rules.begin(), later.why.rules.end(), [](const Rule& rule) {
        return rule.text.starts_with("quota: queue \"lab\" gives its user 1 GPU hours within 30 days");
    }));
}

TEST_CASE("the runs of an array share the budget of their user") {
    World world;
    configure(world, {{"lab", user_hours(1)}});
    world.nodes(1, 64, 2);
    RunSubmitted event = submission(gpu_job);
    event.spec.queue = "lab";
    event.array = {1, 2, 3};
    world.tell(event);
    std::vector<RunId> ids;
    for (const auto& [id, run] : world.cluster.runs) ids.push_back(id);
    REQUIRE(ids.size() == 3);
    begin_run(world, ids[0]);
    begin_run(world, ids[1]);
    world.pass(hour / 2);
    end_workers(world, ids[0]);
    CHECK(world.run(ids[2]).state == RunState::queued);
    CHECK(world.run(ids[2]).reason.is<reasons::BudgetUsed>());
}

TEST_CASE("use within a window is never below the truth, and has few slices") {
    constexpr Duration window{hour};
    std::mt19937 dice(7);
    BudgetUse use{.queue = "q", .user = "ana", .at = {0}, .held = {}};
    struct Span {
        std::int64_t from, until, ticks;
    };
    std::vector<Span> truth;
    for (std::int64_t now = 0; now < 10 * hour;) {
        const std::int64_t next = now + 1 + static_cast<std::int64_t>(dice() % 400'000);
        const Amount held{static_cast<std::int64_t>(dice() % 5) * 5'000};
        use = core::charged(use, held, {now}, window);
        truth.push_back({now, next, held.ticks});
        now = next;
        std::int64_t exact = 0, with_slice = 0;
        for (const Span& span : truth) {
            const auto part = [&](std::int64_t begin) {
                return std::max<std::int64_t>(span.until - std::max(span.from, begin), 0) * span.ticks;
            };
            exact += part(now - window.ms);
            with_slice += part(now - window.ms - window.ms / 30);
        }
        const BudgetUse seen = core::charged(use, use.held, {now}, window);
        CHECK(core::gpu_ms_in(seen) * Amount::per_unit >= exact);
        CHECK(core::gpu_ms_in(seen) * Amount::per_unit <= with_slice + 1'000 * Amount::per_unit);
        CHECK(use.used.size() <= 32);
    }
}

TEST_CASE("a budget that many changes of its window have cut up stays small") {
    BudgetUse use{.queue = "q", .user = "ana", .at = {0}, .held = units(1)};
    std::int64_t now = 0;
    for (int i = 0; i < 500; ++i) use = core::charged(use, units(1), {now += hour}, {(1'000 - i) * day});
    CHECK(use.used.size() <= 64);
    CHECK(core::gpu_ms_in(use) == 500 * hour);
}

TEST_CASE("a stored budget goes on after a restart") {
    World world;
    configure(world, {{"lab", user_hours(2)}});
    world.nodes(1, 64, 8);
    const RunId id = submit_as(world, "ana", "lab", gpu_job);
    begin_run(world, id);
    world.pass(hour);
    Cluster stored = world.cluster;
    rtrain::apply(stored, Record(stored.meta));  // marks what is derived as out of date, as after a load
    CHECK(next_wake(stored) == next_wake(world.cluster));
    RunSubmitted event = submission({.name = "late", .gpus = units(1)});
    event.spec.queue = "lab";
    const Decision late = decide(stored, {world.now.ms + hour}, event);
    CHECK(stored.runs.at(*late.created).reason.is<reasons::BudgetUsed>());
}

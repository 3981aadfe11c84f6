// Plans on another thread: their copy while the cluster changes, and the end of a query.
#include "daemon/head/loop/planner.hpp"

#include <optional>

#include "scheduler/explain/explain.hpp"
#include "scheduler/explain/parts.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::head;
using namespace rtrain::stories;

namespace {

constexpr PlannerLimits by_one{.slice_us = 0};  // one task of the loop for each copied run

// A cluster that decides on a loop, and its planner.
struct Planning {
    explicit Planning(PlannerLimits limits) : planner(cluster, loop, limits) { cluster.meta.cluster_id = "c0ffee00"; }

    Decisions tell(const Event& event) {
        Decisions decisions = decide_events(cluster, now, 0, {event}, {});
        planner.saw(decisions);
        return decisions;
    }
    void fill(std::uint32_t waiting) {
        tell(node("n1", 4));
        tell(submission({.name = "first", .cpus = 4, .wall_time = Duration{60'000}}));
        for (std::uint32_t i = 0; i < waiting; ++i)
            tell(submission({.name = "w" + std::to_string(i), .cpus = 3, .priority = static_cast<int>(i % 100)}));
    }
    void run() {
        bool late = false;
        const auto timer = loop.after(60'000, [&] {
            late = true;
            loop.stop();
        });
        loop.run();
        loop.cancel(timer);
        REQUIRE_FALSE(late);
    }
    // Compares the planner's answer with that of `plan` at the time of the query.
    void plan_and_compare(const RunSubmitted& event) {
        const Plan expected = plan(cluster, now, event);
        std::optional<Result<Plan>> made;
        loop.post([&] {
            planner.plan(now, event, [&](Result<Plan> answer) {
                made = std::move(answer);
                loop.stop();
            });
        });
        run();
        REQUIRE((made.has_value() && made->ok()));
        CHECK((*made)->why.headline == expected.why.headline);
        CHECK((*made)->why.rules == expected.why.rules);
        CHECK((*made)->why.holders == expected.why.holders);
        CHECK((*made)->answer.verdict == expected.answer.verdict);
        CHECK((*made)->answer.seats == expected.answer.seats);
        CHECK((*made)->refused == expected.refused);
    }

    net::Loop loop;
    Cluster cluster;
    Time now{1'000};
    Planner planner;
};

const RunSubmitted asked = submission({.name = "asked", .cpus = 2, .priority = 40});

}  // namespace

TEST_CASE("a plan on the copy says what it would have said on the cluster") {
    Planning story(by_one);
    story.fill(50);
    const Cluster before = story.cluster;
    story.plan_and_compare(asked);
    CHECK(story.cluster == before);
    story.plan_and_compare(submission({.name = "first"}));  // the name is taken
    story.plan_and_compare(submission({.name = "huge", .cpus = 100}));
}

TEST_CASE("what is decided while the cluster is copied, and later, is in the plan") {
    Planning story(by_one);
    story.fill(60);
    std::optional<Result<Plan>> made;
    std::optional<Plan> expected;
    int tasks = 0;
    // Runs between the steps of the copy: a run that was just copied, or is next, ends, and a new one is submitted.
    const std::function<void()> go_on = [&] {
        story.tell(RunStopAsked{.run = RunId{static_cast<std::uint64_t>(3 + 2 * tasks)}, .by = "ana"});
        story.tell(submission({.name = "late" + std::to_string(tasks), .cpus = 1, .priority = 90}));
        story.tell(node("n" + std::to_string(10 + tasks), 1));
        expected = plan(story.cluster, story.now, asked);
        if (++tasks < 20) story.loop.post(go_on);
    };
    story.loop.post([&] {
        story.planner.plan(story.now, asked, [&](Result<Plan> answer) {
            made = std::move(answer);
            story.loop.stop();
        });
        story.loop.post(go_on);
    });
    story.run();
    REQUIRE(tasks == 20);  // it was not started before
    REQUIRE((made.has_value() && made->ok()));
    CHECK((*made)->why.headline == expected->why.headline);
    CHECK((*made)->why.rules == expected->why.rules);
    CHECK((*made)->answer.seats == expected->answer.seats);
    story.plan_and_compare(asked);  // uses the same copy
    for (std::uint64_t run = 1; run < 30; ++run) story.tell(RunStopAsked{.run = RunId{run}, .by = "ana"});
    story.tell(node("n40", 8));
    story.plan_and_compare(asked);
    RunSubmitted behind = asked;  // an ended predecessor is in no copy
    behind.spec.after = {{.run = RunId{3}, .what = AfterWhat::ended}};
    story.plan_and_compare(behind);
    story.plan_and_compare(asked);
}

TEST_CASE("what looks at the copy sees the cluster as it was when it was asked, and an exception is its answer") {
    Planning story(by_one);
    story.fill(30);
    const RunId last{31};
    Explanation expected = explain(story.cluster, story.now, last, JobWords::shown), made;
    std::string wrong;
    story.loop.post([&] {
        story.planner.look(
            "ana", [&](Cluster& copy) { made = explain(copy, story.now, last, JobWords::shown); },
            [&](const Status& looked) { REQUIRE(looked); });
        story.planner.look(
            "ana", [](Cluster&) { throw std::runtime_error("the sky"); },
            [&](const Status& looked) {
                if (!looked) wrong = looked.error().message;
                story.loop.stop();
            });
    });
    story.run();
    CHECK(made.headline == expected.headline);
    CHECK(made.rules == expected.rules);
    CHECK(wrong.find("the sky") != std::string::npos);
    story.plan_and_compare(asked);
}

TEST_CASE("a plan that is not made in time is answered all the same, once, with what to do") {
    PlannerLimits limits = by_one;
    limits.deadline_ms = 0;
    Planning story(limits);
    story.fill(2'000);  // the number of tasks of the loop until it is copied
    int answers = 0;
    story.loop.post([&] {
        story.planner.plan(story.now, asked, [&](const Result<Plan>& answer) {
            ++answers;
            REQUIRE_FALSE(answer);
            CHECK(answer.error().code == ErrorCode::unreachable);
            CHECK(answer.error().message.find("was not made within") != std::string::npos);
            CHECK(answer.error().next.find("ask again") != std::string::npos);
            story.loop.after(50, [&] { story.loop.stop(); });
        });
    });
    story.run();
    CHECK(answers == 1);
}

TEST_CASE("a user has so many questions at a time, and all users together") {
    PlannerLimits limits = by_one;
    limits.questions = 3;
    limits.questions_of_user = 2;
    Planning story(limits);
    story.fill(5);
    std::string refused;
    int plans = 0;
    const auto plan_for = [&](const std::string& user) {
        RunSubmitted event = asked;
        event.user = user;
        story.planner.plan(story.now, event, [&, user](const Result<Plan>& answer) {
            if (!answer) CHECK(answer.error().code == ErrorCode::unreachable);
            if (!answer) refused += user + " ";
            if (answer && ++plans % 3 == 0) story.loop.stop();
        });
    };
    const auto all = [&] {
        for (const char* user : {"ana", "ana", "ana", "bob", "eve"}) plan_for(user);
    };
    for (int round = 1; round <= 2; ++round) {
        story.loop.post(all);
        story.run();
        CHECK(plans == 3 * round);  // ana's two and bob's one
    }
    CHECK(refused == "ana eve ana eve ");
}

TEST_CASE("users alternate: who asks once does not wait behind all that another has asked before") {
    Planning story(by_one);
    story.fill(5);
    std::vector<std::string> answered;
    const auto plan_for = [&](const std::string& user) {
        story.planner.look(
            user, [](Cluster&) {},
            [&, user](const Status& looked) {
                REQUIRE(looked);
                answered.push_back(user);
                if (answered.size() == 8) story.loop.stop();
            });
    };
    story.loop.post([&] {
        for (int i = 0; i < 6; ++i) plan_for("ana");
        plan_for("bob");
        plan_for("eve");
    });
    story.run();
    CHECK(answered == std::vector<std::string>{"ana", "bob", "eve", "ana", "ana", "ana", "ana", "ana"});
}

TEST_CASE("the copy goes some time after the last question, also where nothing else happens") {
    PlannerLimits limits = by_one;
    limits.kept_ms = 20;
    Planning story(limits);
    story.fill(5);
    story.plan_and_compare(asked);
    CHECK(story.planner.keeps_copy());
    const std::function<void()> look = [&] {
        if (!story.planner.keeps_copy()) return story.loop.stop();
        story.loop.after(1, look);
    };
    story.loop.post(look);
    story.run();
    CHECK_FALSE(story.planner.keeps_copy());
    story.plan_and_compare(asked);
}

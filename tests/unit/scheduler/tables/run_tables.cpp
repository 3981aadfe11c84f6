// The tables of the cluster index about runs: names, times, waits for other runs, and the queue's batches.
#include "scheduler/index/tables/deadlines.hpp"
#include "scheduler/index/tables/run_links.hpp"
#include "scheduler/index/tables/run_names.hpp"
#include "scheduler/index/tables/run_times.hpp"
#include "scheduler/index/tables/waiting_runs.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;

namespace {

using RunIds = std::vector<RunId>;

WaitingRun table_entry(std::uint64_t id, std::int64_t submitted_ms, std::string program = "") {
    return {.line = {.priority = 50, .queue = "default"},
            .shape = 0,
            .waiter = {.submitted = {submitted_ms}, .id = {id}},
            .length = Duration{1000 - submitted_ms},
            .program = std::move(program),
            .is_fresh = true,
            .is_reserving = id == 2};
}

}  // namespace

TEST_CASE("a name belongs to the live run that took it last") {
    RunNames names;
    const NamesOfRun first{.name = "train", .user = "ana", .submit_key = "k", .is_live = true};
    names.add({1}, first);
    NamesOfRun ended = first;
    ended.is_live = false;
    names.remove({1}, first);
    names.add({1}, ended);
    CHECK(names.live_run("train") == std::nullopt);
    CHECK(names.submitted("ana", "k") == RunId{1});
    names.add({2}, first);
    names.remove({1}, ended);
    CHECK(names.live_run("train") == RunId{2});
    CHECK(names.submitted("ana", "k") == RunId{2});
    CHECK(names.submitted("ben", "k") == std::nullopt);
    names.remove({2}, first);
    CHECK(names == RunNames{});
}

TEST_CASE("all runs of an array have one submit key, which names the first") {
    RunNames names;
    names.add({7}, {.name = "a-0", .user = "ana", .submit_key = "k", .is_live = true});
    names.add({8}, {.name = "a-1", .user = "ana", .submit_key = "k", .is_live = true});
    CHECK(names.submitted("ana", "k") == RunId{7});
}

TEST_CASE("a limit is due until it is removed, other times only in the future") {
    RunTimes times;
    const TimesOfRun limited{.limit = Time{100}}, retried{.retry = Time{100}};
    times.add({2}, limited);
    times.add({1}, {.limit = Time{90}});
    times.add({3}, retried);
    CHECK(times.limits_until(Time{99}) == RunIds{{1}});
    CHECK(times.limits_until(Time{100}) == RunIds{{1}, {2}});
    CHECK(times.next_wake(Time{200}) == Time{90});
    times.remove({1}, {.limit = Time{90}});
    times.remove({2}, limited);
    CHECK(times.next_wake(Time{99}) == Time{100});
    CHECK(times.next_wake(Time{100}) == std::nullopt);
    CHECK(times.retries_until(Time{100}) == RunIds{{3}});
    times.remove({3}, retried);
    CHECK(times == RunTimes{});
}

TEST_CASE("each kind of future time of a run is due within its interval") {
    const Time due{100};
    for (const TimesOfRun& kind : {TimesOfRun{.retry = due}, TimesOfRun{.reservation = due}, TimesOfRun{.growth = due},
                                   TimesOfRun{.starvation = due}}) {
        RunTimes times;
        times.add({1}, kind);
        CHECK(times.is_due_within(Time{99}, Time{100}));
        CHECK_FALSE(times.is_due_within(Time{100}, Time{200}));
        CHECK_FALSE(times.is_due_within(Time{50}, Time{99}));
        CHECK(times.next_wake(Time{99}) == due);
        times.remove({1}, kind);
        CHECK(times == RunTimes{});
    }
}

TEST_CASE("runs that wait for a run are its dependents") {
    RunLinks links;
    const LinksOfRun after_both{.after = {{1}, {2}}};
    links.add({5}, after_both);
    links.add({4}, {.after = {{1}}});
    CHECK(links.dependents({1}) == RunIds{{4}, {5}});
    CHECK(links.dependents({2}) == RunIds{{5}});
    links.remove({5}, after_both);
    CHECK(links.dependents({1}) == RunIds{{4}});
    CHECK(links.dependents({2}).empty());
}

TEST_CASE("arrays of two users with the same name are told apart") {
    RunLinks links;
    links.add({3}, {.array = array_key("a", "ana")});
    links.add({4}, {.array = array_key("a", "ben"), .is_elastic = true});
    CHECK(links.next_of_array(array_key("a", "ana")) == RunId{3});
    CHECK(links.next_of_array(array_key("aa", "an")) == std::nullopt);
    CHECK(links.elastic() == std::set<RunId>{{4}});
    links.remove({4}, {.array = array_key("a", "ben"), .is_elastic = true});
    CHECK(links.elastic().empty());
    CHECK(links.next_of_array(array_key("a", "ben")) == std::nullopt);
}

TEST_CASE("an id has one deadline, the last that was put") {
    Deadlines<NodeId> deadlines;
    deadlines.put({"n1"}, Time{50});
    deadlines.put({"n2"}, Time{60});
    deadlines.put({"n1"}, Time{70});
    CHECK(deadlines.first() == Time{60});
    CHECK(deadlines.until(Time{65}) == std::vector<NodeId>{{"n2"}});
    deadlines.put({"n2"}, std::nullopt);
    deadlines.put({"n1"}, std::nullopt);
    CHECK(deadlines == Deadlines<NodeId>{});
    CHECK(deadlines.first() == std::nullopt);
}

TEST_CASE("a batch has its runs by age and by length, and is removed when empty") {
    WaitingRuns waiting;
    const WaitingRun old = table_entry(1, 10, "sweep"), young = table_entry(2, 20, "sweep");
    waiting.add(young);
    waiting.add(old);
    const WaitingBatch& batch = waiting.lines().at(old.line).at(0);
    CHECK(batch.by_age.begin()->id == RunId{1});
    CHECK(batch.by_length.begin()->second == RunId{2});
    CHECK(waiting.fresh() == std::set<RunId>{{1}, {2}});
    CHECK(waiting.reserving() == std::set<RunId>{{2}});
    CHECK(waiting.of_program("sweep").size() == 2);
    waiting.remove(old);
    CHECK(waiting.of_program("sweep").size() == 1);
    waiting.remove(young);
    CHECK(waiting.lines().at(old.line).empty());
    CHECK(waiting.of_program("sweep").empty());
    CHECK(waiting.has_equal_sets({}));
    CHECK(waiting.has_equal_programs({}));
    CHECK(waiting.stored(old.line).queue == "default");
}

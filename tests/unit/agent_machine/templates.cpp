// The choice of the template of warm workers that is made, used or ended.
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

constexpr std::int64_t mib = 1'048'576;

Machine warm_machine(std::size_t templates_max = 8, std::int64_t memory_max = 4'000 * mib) {
    Machine machine;
    machine.state.templates.policy = {.on = true, .templates_max = templates_max, .memory_max = memory_max};
    return machine;
}
std::vector<std::string> made(const Outputs& outputs) {
    std::vector<std::string> keys;
    for (const StartTemplate& one : all<StartTemplate>(outputs)) keys.push_back(one.key);
    return keys;
}
std::vector<std::string> ended(const Outputs& outputs) {
    std::vector<std::string> keys;
    for (const EndTemplate& one : all<EndTemplate>(outputs)) keys.push_back(one.key);
    return keys;
}
using Keys = std::vector<std::string>;

void make(Machine& machine, const std::string& key, std::int64_t bytes = 300 * mib) {
    machine.take(EnvironmentUsed{key});
    REQUIRE(made(machine.later(3'000)) == Keys{key});
    machine.take(TemplateReady{key, bytes});
    REQUIRE(may_fork_from(machine.state.templates, key));
}

// A worker of attempt 1 is forked from the template, which is made first.
void fork_worker(Machine& machine, std::int64_t bytes = 300 * mib) {
    machine.state.attempts[attempt_1];
    make(machine, "a", bytes);
    machine.take(EnvironmentUsed{"a", attempt_1});
    machine.take(WorkerForked{"a"});
}

}  // namespace

TEST_CASE("without --warm no use makes a template") {
    Machine machine;
    machine.take(EnvironmentUsed{"a"});
    CHECK(machine.state.templates.all.empty());
    CHECK(made(machine.later(60'000)).empty());
}

TEST_CASE("the first use makes a template after a pause, and workers are forked once it is ready") {
    Machine machine = warm_machine();
    CHECK(made(machine.take(EnvironmentUsed{"a"})).empty());
    CHECK(next_wake(machine.state) == machine.now + Duration{3'000});
    CHECK(made(machine.later(2'999)).empty());
    CHECK(made(machine.later(1)) == Keys{"a"});
    CHECK_FALSE(may_fork_from(machine.state.templates, "a"));
    machine.take(TemplateReady{"a", 300 * mib});
    CHECK(may_fork_from(machine.state.templates, "a"));
    CHECK_FALSE(may_fork_from(machine.state.templates, "b"));
}

TEST_CASE("what the agent before had is made ahead of its use, and ends when nobody uses it") {
    Machine machine = warm_machine();
    CHECK(made(machine.take(TemplateWanted{"a"})).empty());
    machine.take(TemplateWanted{"a"});
    CHECK(made(machine.later(3'000)) == Keys{"a"});
    machine.take(TemplateReady{"a", 300 * mib});
    CHECK(may_fork_from(machine.state.templates, "a"));
    machine.take(TemplateWanted{"a"});  // has no effect
    CHECK(ended(machine.later(30 * 60 * 1'000)) == Keys{"a"});

    Machine cold;
    cold.take(TemplateWanted{"a"});
    CHECK(cold.state.templates.all.empty());
}

TEST_CASE("one template of a user is made at a time; an import that hangs holds up no other user's") {
    Machine machine = warm_machine();
    machine.state.attempts[attempt_1];
    machine.take(EnvironmentUsed{"a", attempt_1, "ana"});
    machine.take(EnvironmentUsed{"b", attempt_1, "ana"});
    CHECK(made(machine.later(3'000)) == Keys{"a"});
    machine.take(EnvironmentUsed{"c", attempt_1, "bob"});
    CHECK(made(machine.later(3'000)) == Keys{"c"});
    CHECK(made(machine.later(1'000)).empty());
    machine.take(TemplateReady{"a", 300 * mib});
    CHECK(made(machine.later(1'000)) == Keys{"b"});
}

TEST_CASE("an import ends with the last attempt that waits for it, and at once when it has taken long") {
    Machine machine = warm_machine();
    const WarmPolicy policy = machine.state.templates.policy;
    const AttemptKey attempt_2{18, 1};
    machine.state.attempts[attempt_1];
    machine.state.attempts[attempt_2];
    machine.take(EnvironmentUsed{"a", attempt_1, "ana"});
    machine.take(EnvironmentUsed{"a", attempt_2, "ana"});
    REQUIRE(made(machine.later(3'000)) == Keys{"a"});
    CHECK(ended(machine.later(policy.orphan_ms)).empty());
    machine.state.attempts.erase(attempt_1);
    CHECK(ended(machine.later(1)).empty());  // another attempt waits
    machine.state.attempts.at(attempt_2).stop_asked = true;
    CHECK(next_wake(machine.state) <= machine.now);
    CHECK(ended(machine.later(1)) == Keys{"a"});
    CHECK(machine.state.templates.all.empty());

    machine.take(EnvironmentUsed{"b", attempt_1, "ana"});  // the attempt has ended before its template is made
    REQUIRE(made(machine.later(3'000)) == Keys{"b"});
    CHECK(ended(machine.later(policy.orphan_ms - 1)).empty());  // a usual import is finished by then, for the next run
    CHECK(ended(machine.later(1)) == Keys{"b"});
}

TEST_CASE("an import that hangs gives its place to a user who waits") {
    Machine machine = warm_machine();
    const std::int64_t share_ms = machine.state.templates.policy.import_share_ms;
    machine.state.attempts[attempt_1];
    for (const char* user : {"a", "b", "c", "d"}) machine.take(EnvironmentUsed{user, attempt_1, user});
    REQUIRE(made(machine.later(3'000)).size() == 4);
    machine.take(EnvironmentUsed{"a2", attempt_1, "a"});  // waits for its own user's import
    machine.take(EnvironmentUsed{"e", attempt_1, "e"});
    const Outputs early = machine.later(share_ms - 1'000);
    CHECK(made(early).empty());
    CHECK(ended(early).empty());
    const Outputs late = machine.later(3'000);
    CHECK(ended(late) == Keys{"a"});
    CHECK(made(late) == Keys{"e"});
    CHECK(machine.state.templates.all.at("a").phase == TemplatePhase::unfit);
}

TEST_CASE("the number of imports at once is bounded") {
    Machine machine = warm_machine();
    machine.state.attempts[attempt_1];
    for (const char* user : {"a", "b", "c", "d", "e"}) machine.take(EnvironmentUsed{user, attempt_1, user});
    CHECK(made(machine.later(3'000)) == Keys{"a", "b", "c", "d"});
    machine.take(TemplateEnded{"a", "no module"});
    CHECK(made(machine.later(1'000)) == Keys{"e"});
}

TEST_CASE("a user with half of the templates takes the room of a new one from these alone") {
    Machine machine = warm_machine(4);
    const auto make_for = [&](const std::string& user, const std::string& key) {
        machine.take(EnvironmentUsed{key, {}, user});
        const Outputs outputs = machine.later(3'000);
        REQUIRE(made(outputs) == Keys{key});
        machine.take(TemplateReady{key, 300 * mib});
        return ended(outputs);
    };
    for (const char* key : {"b1", "b2"}) CHECK(make_for("bob", key).empty());
    for (const char* key : {"a1", "a2"}) CHECK(make_for("ana", key).empty());
    CHECK(make_for("ana", "a3") == Keys{"a1"});  // bob's templates were used longer ago
    CHECK(make_for("cleo", "c1") == Keys{"b1"});
}

TEST_CASE("a user has no more templates than one user may have") {
    Machine machine = warm_machine();
    machine.state.templates.policy.user_templates_max = 2;
    const AttemptKey attempt_2{18, 1};
    machine.state.attempts[attempt_1];
    machine.state.attempts[attempt_2];
    const auto make_for = [&](const std::string& user, const std::string& key, AttemptKey attempt) {
        machine.take(EnvironmentUsed{key, attempt, user});
        const Outputs outputs = machine.later(3'000);
        for (const std::string& begun : made(outputs)) machine.take(TemplateReady{begun, 300 * mib});
        return std::pair(made(outputs), ended(outputs));
    };
    CHECK(why_user_has_no_place(machine.state.templates, "ana").empty());
    CHECK(make_for("ana", "a1", attempt_1) == std::pair(Keys{"a1"}, Keys{}));
    CHECK(make_for("ana", "a2", attempt_2) == std::pair(Keys{"a2"}, Keys{}));
    CHECK(why_user_has_no_place(machine.state.templates, "ana").starts_with("user ana has 2 templates"));
    CHECK(make_for("ana", "a3", attempt_1) == std::pair(Keys{}, Keys{}));  // both serve attempts that are here
    CHECK(make_for("bob", "b1", attempt_1) == std::pair(Keys{"b1"}, Keys{}));
    CHECK(why_user_has_no_place(machine.state.templates, "bob").empty());
    machine.state.attempts.erase(attempt_2);
    const Outputs later = machine.later(10'000);
    CHECK(ended(later) == Keys{"a2"});
    CHECK(made(later) == Keys{"a3"});
}

TEST_CASE("a user with as many templates as one may have gets no standby") {
    Machine machine = warm_machine();
    machine.state.templates.policy.user_templates_max = 1;
    fork_worker(machine);
    CHECK(made(machine.later(60'000)).empty());
    machine.state.templates.policy.user_templates_max = 2;
    CHECK(made(machine.later(60'000)) == Keys{standby_of("a")});
}

TEST_CASE("a user with many environments makes the agent forget no other user's") {
    Machine machine = warm_machine();
    machine.take(EnvironmentUsed{"b", {}, "bob"});
    machine.take(TemplateEnded{"b"});
    for (int i = 0; i < 200; ++i) machine.take(EnvironmentUsed{"a" + std::to_string(i), {}, "ana"});
    CHECK(machine.state.templates.all.size() == 64);
    CHECK(machine.state.templates.all.contains("b"));
}

TEST_CASE("a template without use ends; a use lets it stay") {
    Machine machine = warm_machine();
    make(machine, "a");
    const std::int64_t idle = machine.state.templates.policy.idle_ms;
    CHECK(ended(machine.later(idle - 10'000)).empty());
    machine.take(EnvironmentUsed{"a"});
    CHECK(ended(machine.later(idle - 1)).empty());
    CHECK(ended(machine.later(1)) == Keys{"a"});
    CHECK(machine.state.templates.all.empty());
}

TEST_CASE("a template stays while an attempt that has used it is here") {
    Machine machine = warm_machine();
    machine.state.attempts[attempt_1];
    machine.take(EnvironmentUsed{"a", attempt_1});
    machine.later(3'000);
    machine.take(TemplateReady{"a", 300 * mib});
    const std::int64_t idle = machine.state.templates.policy.idle_ms;
    CHECK(ended(machine.later(idle)).empty());
    machine.state.attempts.clear();
    CHECK(ended(machine.later(idle - 1)).empty());
    CHECK(ended(machine.later(1)) == Keys{"a"});
}

TEST_CASE("a new template takes the room of the one whose use is the longest ago") {
    Machine machine = warm_machine(2);
    make(machine, "a");
    make(machine, "b");
    machine.take(EnvironmentUsed{"a"});
    machine.take(EnvironmentUsed{"c"});
    const Outputs outputs = machine.later(3'000);
    CHECK(ended(outputs) == Keys{"b"});
    CHECK(made(outputs) == Keys{"c"});
}

TEST_CASE("templates stay within --warm-memory, also one that is larger than was thought") {
    Machine machine = warm_machine(8, 1'000 * mib);
    make(machine, "a");
    machine.take(EnvironmentUsed{"b"});
    REQUIRE(made(machine.later(3'000)) == Keys{"b"});
    CHECK(ended(machine.take(TemplateReady{"b", 900 * mib})) == Keys{"a"});
    machine.take(EnvironmentUsed{"c"});
    CHECK(ended(machine.later(3'000)) == Keys{"b"});
    CHECK(ended(machine.take(TemplateReady{"c", 1'001 * mib})) == Keys{"c"});
    CHECK_FALSE(may_fork_from(machine.state.templates, "c"));
    CHECK(made(machine.later(60'000)).empty());  // it would have the same size again
}

TEST_CASE("memory too small for any template makes none") {
    Machine machine = warm_machine(8, 100 * mib);
    machine.take(EnvironmentUsed{"a"});
    CHECK(made(machine.later(3'000)).empty());
    CHECK(made(machine.later(60'000)).empty());
}

TEST_CASE("what could be no template is tried again after a pause; what was one, with the next use") {
    Machine machine = warm_machine();
    machine.take(EnvironmentUsed{"a"});
    machine.later(3'000);
    machine.take(TemplateEnded{"a", "No module named 'x'"});
    machine.take(EnvironmentUsed{"a"});
    CHECK(made(machine.later(60'000)).empty());
    machine.later(machine.state.templates.policy.unfit_ms);
    make(machine, "a");
    machine.take(TemplateEnded{"a", ""});
    CHECK_FALSE(may_fork_from(machine.state.templates, "a"));
    make(machine, "a");
}

TEST_CASE("a template that imports for too long is ended") {
    Machine machine = warm_machine();
    machine.state.attempts[attempt_1];
    machine.take(EnvironmentUsed{"a", attempt_1});
    machine.later(3'000);
    CHECK(ended(machine.later(119'999)).empty());
    CHECK(ended(machine.later(1)) == Keys{"a"});
    machine.take(TemplateReady{"a", 300 * mib});  // an answer from before the order
    CHECK_FALSE(may_fork_from(machine.state.templates, "a"));
}

TEST_CASE(
    "a template that fails is made again with its next use; one that fails again has a pause, which grows to a bound") {
    Machine machine = warm_machine();
    const WarmPolicy policy = machine.state.templates.policy;
    const auto fail = [&] { machine.take(TemplateEnded{"a", "", "it was killed"}); };
    make(machine, "a");
    fail();
    CHECK(why_paused(machine.state.templates, "a").empty());
    CHECK(made(machine.later(60'000)).empty());  // no attempt uses it
    make(machine, "a");
    std::int64_t pause = policy.pause_ms;
    for (int round = 0; round < 8; ++round) {
        fail();
        machine.take(EnvironmentUsed{"a"});
        CHECK(made(machine.later(pause - 1)).empty());
        CHECK(why_paused(machine.state.templates, "a") == "its templates have failed " + std::to_string(round + 2) +
                                                              " times in a row (the last: it was killed), and " +
                                                              "none is made for " + std::to_string(pause / 1'000) +
                                                              " s");
        machine.later(1);
        CHECK(why_paused(machine.state.templates, "a").empty());
        make(machine, "a");
        pause = std::min(2 * pause, policy.pause_max_ms);
    }
    CHECK(pause == policy.pause_max_ms);
}

TEST_CASE(
    "a forked worker, or an hour without use, makes good for the failures before; others are not held up by them") {
    Machine machine = warm_machine();
    make(machine, "a");
    machine.take(TemplateEnded{"a", "", "it was killed"});
    make(machine, "a");
    machine.take(WorkerForked{"a"});
    machine.take(TemplateEnded{"a", "", "it was killed"});
    CHECK(why_paused(machine.state.templates, "a").empty());
    make(machine, "a");
    machine.take(TemplateEnded{"a", "", "it was killed"});
    CHECK_FALSE(why_paused(machine.state.templates, "a").empty());
    CHECK(why_paused(machine.state.templates, "b").empty());
    make(machine, "b");
    machine.take(WorkerForked{"a"});  // a late answer
    CHECK_FALSE(why_paused(machine.state.templates, "a").empty());
    machine.later(machine.state.templates.policy.pause_ms);
    machine.later(machine.state.templates.policy.known_ms);
    CHECK_FALSE(machine.state.templates.all.contains("a"));
}

TEST_CASE("while a forked worker runs, a standby is made beside its template, and forks the next one when that fails") {
    Machine machine = warm_machine();
    machine.state.attempts[attempt_1];
    const WarmPolicy policy = machine.state.templates.policy;
    const std::string standby = standby_of("a");
    CHECK(is_standby(standby));
    CHECK(environment_of(standby) == "a");
    CHECK(environment_of("a") == "a");
    make(machine, "a");
    CHECK(made(machine.later(60'000)).empty());  // no worker was forked
    machine.take(EnvironmentUsed{"a", attempt_1});
    machine.take(WorkerForked{"a"});
    CHECK(made(machine.later(policy.standby_delay_ms - 1)).empty());
    CHECK(made(machine.later(1)) == Keys{standby});
    CHECK(template_to_fork(machine.state.templates, "a") == "a");
    machine.take(TemplateReady{standby, 300 * mib});
    CHECK(template_to_fork(machine.state.templates, "a") == "a");
    machine.take(TemplateEnded{"a", "", "its keeper has ended"});
    CHECK(template_to_fork(machine.state.templates, "a") == standby);
    machine.take(EnvironmentUsed{"a", attempt_1});
    machine.take(WorkerForked{standby});
    CHECK(made(machine.later(3'000)) == Keys{"a"});  // the first one is made again
    CHECK(template_to_fork(machine.state.templates, "a") == standby);
    machine.take(TemplateReady{"a", 300 * mib});
    CHECK(template_to_fork(machine.state.templates, "a") == "a");
    CHECK(made(machine.later(60'000)).empty());  // both exist

    machine.take(TemplateEnded{standby, "", "its keeper has ended"});
    machine.take(EnvironmentUsed{"a", attempt_1});
    machine.take(WorkerForked{"a"});
    CHECK(made(machine.later(policy.standby_delay_ms)) == Keys{standby});
}

TEST_CASE("a standby ends soon after the last attempt that it stands by for, and is not made for one that has ended") {
    Machine machine = warm_machine();
    fork_worker(machine);
    const WarmPolicy policy = machine.state.templates.policy;
    REQUIRE(made(machine.later(policy.standby_delay_ms)) == Keys{standby_of("a")});
    machine.take(TemplateReady{standby_of("a"), 300 * mib});
    CHECK(ended(machine.later(5 * policy.standby_idle_ms)).empty());
    machine.state.attempts.clear();
    CHECK(ended(machine.later(policy.standby_idle_ms)) == Keys{standby_of("a")});
    CHECK(may_fork_from(machine.state.templates, "a"));
    machine.take(EnvironmentUsed{"a", attempt_1});
    machine.take(WorkerForked{"a"});
    CHECK(made(machine.later(policy.standby_delay_ms)).empty());
    CHECK_FALSE(machine.state.templates.all.contains(standby_of("a")));
}

TEST_CASE("a standby takes no room from a template, gives its own, and comes back when there is some again") {
    Machine machine = warm_machine(2);
    machine.state.attempts[attempt_1];
    const WarmPolicy policy = machine.state.templates.policy;
    make(machine, "a");
    make(machine, "b");
    machine.take(EnvironmentUsed{"a", attempt_1});
    machine.take(WorkerForked{"a"});
    CHECK(made(machine.later(policy.standby_delay_ms)).empty());  // the bound is two templates
    CHECK(may_fork_from(machine.state.templates, "b"));
    machine.take(TemplateEnded{"b"});
    REQUIRE(made(machine.later(policy.unfit_ms)) == Keys{standby_of("a")});
    machine.take(TemplateReady{standby_of("a"), 300 * mib});
    machine.take(EnvironmentUsed{"b"});
    const Outputs outputs = machine.later(3'000);
    CHECK(ended(outputs) == Keys{standby_of("a")});  // although "a" was used longer ago
    CHECK(made(outputs) == Keys{"b"});
    machine.take(TemplateEnded{"b", "no module"});
    CHECK(made(machine.later(policy.unfit_ms)) == Keys{standby_of("a")});
}

TEST_CASE("a standby is as large as its template: where that does not fit, none is made") {
    Machine machine = warm_machine(8, 1'500 * mib);
    fork_worker(machine, 900 * mib);
    CHECK(made(machine.later(60'000)).empty());

    Machine grows = warm_machine(8, 1'000 * mib);
    fork_worker(grows, 300 * mib);
    REQUIRE(made(grows.later(10'000)) == Keys{standby_of("a")});
    CHECK(ended(grows.take(TemplateReady{standby_of("a"), 800 * mib})) ==
          Keys{standby_of("a")});  // larger than expected
    CHECK(may_fork_from(grows.state.templates, "a"));
}

TEST_CASE("a standby that fails is made again while its attempt is here, after pauses that grow") {
    Machine machine = warm_machine();
    fork_worker(machine);
    const WarmPolicy policy = machine.state.templates.policy;
    std::int64_t pause = policy.standby_delay_ms;
    for (const std::int64_t next : {policy.standby_delay_ms, policy.pause_ms, 2 * policy.pause_ms}) {
        CHECK(made(machine.later(pause - 1)).empty());
        REQUIRE(made(machine.later(1)) == Keys{standby_of("a")});
        machine.take(TemplateReady{standby_of("a"), 300 * mib});
        machine.take(TemplateEnded{standby_of("a"), "", "it was killed"});
        pause = next;
    }
    machine.state.attempts.clear();
    CHECK(made(machine.later(pause)).empty());
    CHECK_FALSE(machine.state.templates.all.contains(standby_of("a")));
}

TEST_CASE("a template that is made again does not end the standby that serves meanwhile") {
    Machine machine = warm_machine(2);
    fork_worker(machine);
    const WarmPolicy policy = machine.state.templates.policy;
    REQUIRE(made(machine.later(policy.standby_delay_ms)) == Keys{standby_of("a")});
    machine.take(TemplateReady{standby_of("a"), 300 * mib});
    machine.take(TemplateEnded{"a", "", "its keeper has ended"});
    make(machine, "b");
    machine.take(EnvironmentUsed{"a", attempt_1});
    const Outputs outputs = machine.later(3'000);
    CHECK(ended(outputs).empty());
    CHECK(made(outputs).empty());
    CHECK(template_to_fork(machine.state.templates, "a") == standby_of("a"));
    machine.take(TemplateEnded{"b"});
    CHECK(made(machine.later(policy.standby_delay_ms)) == Keys{"a"});
}

TEST_CASE("a template whose files have changed takes its standby with it") {
    Machine machine = warm_machine();
    fork_worker(machine);
    REQUIRE(made(machine.later(machine.state.templates.policy.standby_delay_ms)) == Keys{standby_of("a")});
    CHECK(ended(machine.take(TemplateEnded{"a"})) == Keys{standby_of("a")});
    machine.take(TemplateReady{standby_of("a"), 300 * mib});  // an answer from before the order
    CHECK_FALSE(template_to_fork(machine.state.templates, "a").has_value());
}

// Finds runs by name and key without a search through every run. Removed runs are not found.
#include "daemon/head/view/run_names.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain;

namespace {

Run run(std::uint64_t id, const std::string& name, const std::string& key) {
    Run out;
    out.id = {id};
    out.name = name;
    out.submit_key = key;
    return out;
}

}  // namespace

TEST_CASE("runs of one name or one submission are found together, each once") {
    head::RunNames names;
    names.saw(run(1, "a", "first"));
    names.saw(run(2, "a", "second"));
    names.saw(run(3, "b", "second"));
    names.saw(run(2, "a", "second"));  // its state changed, not its name
    CHECK(names.named("a") == std::set<RunId>{{1}, {2}});
    CHECK(names.submitted("second") == std::set<RunId>{{2}, {3}});
    CHECK(names.named("c").empty());
}

TEST_CASE("runs are counted by their states as these change") {
    head::RunNames names;
    names.saw(run(1, "a", "k"));
    Run second = run(2, "b", "l");
    names.saw(second);
    second.state = RunState::running;
    names.saw(second);
    CHECK(names.in_states() == std::map<RunState, std::size_t>{{RunState::queued, 1}, {RunState::running, 1}});
    names.forget({2});
    CHECK(names.in_states() == std::map<RunState, std::size_t>{{RunState::queued, 1}});
}

TEST_CASE("a removed run is forgotten, and its name is free again") {
    head::RunNames names;
    names.saw(run(1, "a", "k"));
    names.forget({1});
    names.forget({1});
    CHECK(names.named("a").empty());
    CHECK(names.submitted("k").empty());
    names.saw(run(2, "a", "k"));
    CHECK(names.named("a") == std::set<RunId>{{2}});
}

TEST_CASE("the runs of a user that have not ended are counted as their states change") {
    head::RunNames names;
    Run first = run(1, "a", "k"), second = run(2, "b", "l");
    first.user = second.user = "ana";
    names.saw(first);
    names.saw(second);
    CHECK(names.live_runs_of("ana") == 2);
    first.state = RunState::failed;
    names.saw(first);
    CHECK(names.live_runs_of("ana") == 1);
    names.forget({1});
    CHECK(names.live_runs_of("ana") == 1);
    names.forget({2});
    CHECK(names.live_runs_of("ana") == 0);
}

// The autoscaler on an event loop: events between its order to release a machine and the command.
#include "daemon/head/autoscale/autoscaler.hpp"

#include <filesystem>

#include "tests/unit/folder.hpp"
#include "tests/unit/head_core.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

// A labelled node, n1, that the autoscaler has drained. Its `release` writes a file.
struct MachineStory : test::HeadCore {
    std::string released = folder.path + "/released";
    std::vector<std::string> left;

    MachineStory() {
        const std::string script = "echo > " + released;
        options.autoscale = spec::AutoscaleRules{
            .policy = {.max = 2}, .provision = {"/bin/false"}, .release = {"/bin/sh", "-c", script}};
        options.autoscale_every_ms = 10;
        events.connect(no_steps());
        happens(HeadStarted{.wall_ms = 1, .quarantine = {}});
        NodeRegistered machine;
        machine.node = {"n1"};
        machine.labels[autoscale_label] = "true";
        machine.total["CPU"] = units(4);
        happens(machine);
        happens(NodeDrained{.node = {"n1"}, .by = autoscale_user, .reason = "idle"});
    }
    Autoscaler::Uses uses() {
        return {loop, events, events.cluster(), clock, metrics, options, [this](const std::string& node) {
                    left.push_back(node);
                    events.take(NodeLeft{NodeId{node}});  // as the head does; a node that stays is released again
                }};
    }
    NodeState state() const { return events.cluster().nodes.at(NodeId{"n1"}).state; }
};

}  // namespace

TEST_CASE("the machine of a node that is drained and empty is given back") {
    MachineStory story;
    Autoscaler autoscaler(story.uses());
    autoscaler.start(std::nullopt);
    REQUIRE(test::run_until(story.loop, [&] { return !story.left.empty(); }));
    CHECK(story.left == std::vector<std::string>{"n1"});
    CHECK(std::filesystem::exists(story.released));
    CHECK_FALSE(autoscaler.releases("n1"));
}

TEST_CASE("a node that is in use again before the command begins keeps its machine") {
    MachineStory story;
    Autoscaler autoscaler(story.uses());
    {
        const test::HeldJournal held(story.folder.path);  // the order cannot be saved yet
        autoscaler.start(std::nullopt);
        REQUIRE(test::run_until(story.loop, [&] { return autoscaler.releases("n1"); }));
        story.events.take(NodeUndrained{{"n1"}});
        REQUIRE(test::run_until(story.loop, [&] { return story.state() == NodeState::ready; }));
        bool looked = false;  // waits for several looks, while the order is being saved
        story.loop.after(5 * story.options.autoscale_every_ms, [&] { looked = true; });
        REQUIRE(test::run_until(story.loop, [&] { return looked; }));
    }
    REQUIRE(test::run_until(story.loop, [&] { return !autoscaler.releases("n1"); }));
    CHECK_FALSE(std::filesystem::exists(story.released));
    CHECK(story.left.empty());
    CHECK(story.state() == NodeState::ready);
}

namespace {

// A run waits. `provision` names two machines within other output, and neither joins.
struct NamedStory : test::HeadCore {
    std::string released = folder.path + "/released";

    NamedStory() {
        const std::string script = "echo making them; echo node=m1; echo node=m2; echo node=../m3; printf node=m4";
        options.autoscale =
            spec::AutoscaleRules{.policy = {.node = {.total = {{"CPU", units(4)}}}, .max = 2, .timeout = {1'000}},
                                 .provision = {"/bin/sh", "-c", script},
                                 .release = {"/bin/sh", "-c", "echo \"$0\" >> " + released}};
        options.autoscale_every_ms = 10;
        events.connect(no_steps());
        happens(HeadStarted{.wall_ms = 1, .quarantine = {}});
        RunSubmitted run;
        run.name = "waits";
        run.user = "ana";
        run.storage_path = "/runs";
        run.job_json = "{}";
        run.spec.gang.bundles.resize(2);
        for (Bundle& bundle : run.spec.gang.bundles) bundle.demand["CPU"] = units(4);
        happens(run);
    }
    Autoscaler::Uses uses() {
        return {loop, events, events.cluster(), clock, metrics, options, [](const auto&) {}};
    }
    std::string saved() const { return journal->setting(Autoscaler::setting).value_or(""); }
    bool given_back() const { return bytes_of_file(released) == "m2\nm1\n"; }
};

}  // namespace

TEST_CASE("machines that the command has named and that never join are given back, also by a new head") {
    const std::string saved = [] {
        NamedStory first;
        Autoscaler autoscaler(first.uses());
        autoscaler.start(std::nullopt);
        REQUIRE(test::run_until(first.loop, [&] { return first.saved().find("\"m1\"") != std::string::npos; }));
        return first.saved();
    }();
    CHECK(saved.find("m3") == std::string::npos);
    CHECK(saved.find("m4") == std::string::npos);
    NamedStory story;
    Autoscaler autoscaler(story.uses());
    autoscaler.start(saved);
    REQUIRE(test::run_until(story.loop, [&] { return story.given_back(); }));
    REQUIRE(test::run_until(story.loop, [&] { return story.saved().find("\"unjoined\":[]") != std::string::npos; }));
    CHECK_FALSE(autoscaler.releases("m1"));
}

TEST_CASE("a machine that joins while it is deleted gets no work, and leaves with it") {
    MachineStory story;
    story.happens(NodeLeft{{"n1"}});
    const std::string held = story.folder.path + "/held";
    write_to_file(held, "");
    story.options.autoscale->release = {
        "/bin/sh", "-c", "echo > " + story.released + "; while [ -e " + held + " ]; do sleep 0.05; done"};
    Autoscaler autoscaler(story.uses());
    autoscaler.start(R"({"orders":[],"unjoined":[{"node":"n1","after_wall_ms":0,"failures":0}],"failures":0,)"
                     R"("order_after_wall_ms":0})");
    REQUIRE(test::run_until(story.loop, [&] { return std::filesystem::exists(story.released); }));
    NodeRegistered machine;
    machine.node = {"n1"};
    machine.total["CPU"] = units(4);
    story.events.take(machine);
    const auto drained = [&] {
        const auto node = story.events.cluster().nodes.find(NodeId{"n1"});
        return node != story.events.cluster().nodes.end() && drained_by_autoscaler(node->second);
    };
    REQUIRE(test::run_until(story.loop, drained));
    std::filesystem::remove(held);
    REQUIRE(test::run_until(story.loop, [&] { return !story.left.empty(); }));
    CHECK(story.left == std::vector<std::string>{"n1"});
}

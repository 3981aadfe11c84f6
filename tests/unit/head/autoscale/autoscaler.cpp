// The autoscaler over an event loop: what comes between its order to release a machine and the command.
#include "daemon/head/autoscale/autoscaler.hpp"

#include <filesystem>

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
        return {loop,
                events,
                events.cluster(),
                clock,
                metrics,
                options,
                [this](const std::string& node) { left.push_back(node); }};
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
        const test::HeldJournal held(story.folder.path);  // what was ordered cannot be saved yet
        autoscaler.start(std::nullopt);
        REQUIRE(test::run_until(story.loop, [&] { return autoscaler.releases("n1"); }));
        story.events.take(NodeUndrained{{"n1"}});
        REQUIRE(test::run_until(story.loop, [&] { return story.state() == NodeState::ready; }));
    }
    REQUIRE(test::run_until(story.loop, [&] { return !autoscaler.releases("n1"); }));
    CHECK_FALSE(std::filesystem::exists(story.released));
    CHECK(story.left.empty());
    CHECK(story.state() == NodeState::ready);
}

// Databases of earlier versions. tests/data/make_state.py made the ones in tests/data.
#include <map>

#include "tests/unit/source_directory.hpp"
#include "tests/unit/state_story.hpp"

using namespace rtrain;
using namespace rtrain::state;

namespace {

void put_data(const ScratchDirectory& scratch, const std::string& file) {
    std::filesystem::create_directories(scratch / "data");
    std::filesystem::copy_file(test::source_directory() + "/tests/data/" + file, scratch / "data/state.db");
}

std::map<std::string, std::string> reasons_of(const Cluster& cluster) {
    std::map<std::string, std::string> reasons;
    for (const auto& [id, run] : cluster.runs) reasons[run.name] = to_text(run.reason);
    return reasons;
}

void check_that_it_is_kept(Story& story, const ScratchDirectory& scratch) {
    const Cluster before = story.cluster;
    story.journal.reset();
    story.open();
    CHECK(story.cluster == before);
    Result<std::string> verified = SqliteJournal::verify(scratch / "data");
    if (!verified) FAIL(verified.error().message);
}

const std::map<std::string, std::string> in_version_4 = {
    {"after-holder", "waits for holder to end"},
    {"after-stopped", "it was to start after stopped, which is STOPPED"},
    {"asked", ""},
    {"fails", "rank 0 on node-1: exited with code 3 (no such layer) (failure 1, failure.max_failures is 0)"},
    {"fails-fast", "rank 0 on node-1: exited with code 4 (failure.fail_fast)"},
    {"fails-twice", "rank 0 on node-2: killed by signal 9 (failure 2, failure.max_failures is 1)"},
    {"grid-1", ""},
    {"grid-2", "array grid runs at most 1 at a time"},
    {"high", ""},
    {"holder", ""},
    {"late", "it was not placed within limits.queue_time"},
    {"lost", "node node-3 was lost: no heartbeat for 3.2 s"},
    {"low", "gives way to high (priority 90, queue \"urgent\")"},
    {"never",
     "NO PRESENT NODES COULD EVER HOLD IT, it waits for nodes to join: node-1: has 16 CPU, bundle needs 99; node-2: "
     "draining, takes no new bundle; node-3: lost"},
    {"no-room", "waits for room"},
    {"no-storage",
     "node-1 could not prepare: node-1: storage path /proc/nowhere: making /proc/nowhere: No such file or directory"},
    {"ours-1", ""},
    {"small-1", ""},
    {"small-2", "queue \"small\" holds 1 of its quota of 1 CPU, this needs 1 more"},
    {"stop-metric", "stop: step reached 9"},
    {"stopped", "stopped by admin"},
    {"succeeds", "every rank ended with 0"},
    {"theirs-1", "queue \"team\" holds 1 of its quota of 2 CPU, this needs 2 more"},
    {"too-long", "limits.wall_time was reached"},
};

// Returns the registration that the node's agent sends after the head's start.
NodeRegistered registration_of(const Cluster& cluster, const NodeId& id) {
    const Node& node = cluster.nodes.at(id);
    NodeRegistered event{.node = id,
                         .address = node.address,
                         .port = node.port,
                         .labels = node.labels,
                         .total = node.total,
                         .gpus = node.gpus,
                         .held = {}};
    for (const auto& [attempt_id, attempt] : cluster.attempts)
        for (const auto& worker : attempt.workers)
            if (!terminal(attempt.state) && worker.seat.node == id) {
                event.held.push_back(attempt_id);
                break;
            }
    return event;
}

}  // namespace

TEST_CASE("a database of version 4 is opened, and every run has the reason that it had: as a sentence") {
    ScratchDirectory scratch;
    put_data(scratch, "state-4.db");
    Story story(scratch / "data");
    CHECK(reasons_of(story.cluster) == in_version_4);
    for (const auto& [id, run] : story.cluster.runs) CHECK((run.reason.none() || run.reason.is<reasons::Text>()));
    for (const auto& [id, attempt] : story.cluster.attempts)
        CHECK((attempt.cause.none() || attempt.cause.is<reasons::Text>()));
    CHECK(to_text(story.cluster.nodes.at({"node-2"}).state_reason) == "drained by admin: kernel update");
    const auto named = [&](const char* name) {
        return std::find_if(story.cluster.runs.begin(), story.cluster.runs.end(),
                            [&](const auto& entry) { return entry.second.name == name; });
    };
    const auto low = story.cluster.attempts.find({.run = named("low")->first, .number = 1});
    REQUIRE(low != story.cluster.attempts.end());
    REQUIRE(low->second.request.has_value());
    CHECK(low->second.request->reason == RequestReason::preemption);
    CHECK(low->second.request->preemptor == named("high")->first);
    CHECK(to_text(low->second.request->why) == in_version_4.at("low"));
    CHECK(low->second.request->asked.ms > 0);
    CHECK(invariants(story.cluster).empty());
}

TEST_CASE(
    "runs of version 4 that still wait are told anew why at the first scheduling cycle; the others keep their "
    "sentence") {
    ScratchDirectory scratch;
    put_data(scratch, "state-4.db");
    Story story(scratch / "data");
    story.happen({HeadStarted{}});
    for (const auto& [id, node] : std::map(story.cluster.nodes))
        if (node.awaited && node.state == NodeState::ready) story.happen({registration_of(story.cluster, id)});
    const auto reasons = reasons_of(story.cluster);
    for (const auto& [id, run] : story.cluster.runs) {
        const bool waits = run.state == RunState::queued && run.after.empty() && !run.array_waits;
        INFO(run.name << ": " << to_text(run.reason));
        CHECK(run.reason.is<reasons::Text>() != (waits || run.reason.none()));
        if (run.name != "low") CHECK(reasons.at(run.name) == in_version_4.at(run.name));
    }
    CHECK(reasons.at("low") == "waits for room");  // the preemption is recorded in its last attempt
    check_that_it_is_kept(story, scratch);
}

TEST_CASE("a database of release 0.1.0 is opened, and every run has the reason that it had: as a value") {
    ScratchDirectory scratch;
    put_data(scratch, "state-5.db");
    Story story(scratch / "data");
    std::map<std::string, std::string> expected = in_version_4;  // the history is the same
    expected["lost"] = "node node-3 was lost: no heartbeat for 3.0 s";
    CHECK(reasons_of(story.cluster) == expected);
    for (const auto& [id, run] : story.cluster.runs) CHECK_FALSE(run.reason.is<reasons::Text>());
    CHECK(invariants(story.cluster).empty());
    story.happen({HeadStarted{}});
    check_that_it_is_kept(story, scratch);
}

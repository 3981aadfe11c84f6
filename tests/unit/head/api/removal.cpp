// Removal of runs with their files: the owner of a directory that several runs had, the nodes that must be connected,
// and the answers that count.
#include <fstream>

#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

json at(const std::string& name, const std::string& storage_path) {
    json out = job(name);
    out["storage_path"] = storage_path;
    return out;
}

std::string submit(const HeadUnderTest& head, const json& job, bool resume = false) {
    const Answer answer = head.call("POST", "/v1/runs", {{"job", job}, {"resume", resume}});
    INFO(answer.text);
    REQUIRE(answer.status == 201);
    return answer.body["run_id"];
}

void stop(const HeadUnderTest& head, const std::string& run) {
    head.call("POST", "/v1/runs/" + run + "/stop");
    REQUIRE(eventually([&] { return state_of(head, run) == "STOPPED"; }));
}

net::Call removal_of(const std::string& run) {
    return {.method = "DELETE", .target = "/v1/runs/" + run + "?files=true"};
}

Answer remove(const HeadUnderTest& head, const std::string& run) {
    return HeadUnderTest::send(head.endpoint(head.admin), removal_of(run));
}

// Runs one worker on this node, from its submission to its end. Returns the run's id.
std::string run_on(const HeadUnderTest& head, HandMadeAgent& agent, const json& job) {
    const std::string run = submit(head, job);
    end_well(agent, start_attempt(agent, 1), 1);
    REQUIRE(eventually([&] { return state_of(head, run) == "SUCCEEDED"; }));
    return run;
}

}  // namespace

TEST_CASE("the directory of a run that another went on from is that one's: kept while it lives, and removed with it") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const std::string first = submit(head, job("digits"));
    stop(head, first);
    const std::string place = folder.path + "/storage/digits";
    std::filesystem::create_directories(place);
    std::ofstream(place + "/run.json") << json{{"cluster_id", head.started.cluster_id}, {"run_id", first}};

    const std::string second = submit(head, job("digits"), true);
    const Answer alive = remove(head, first);
    CHECK(alive.status == 409);
    CHECK((says(alive, second) && says(alive, "QUEUED") && says(alive, "rtrain stop " + second)));
    stop(head, second);
    const Answer ended = remove(head, first);
    CHECK(ended.status == 409);
    CHECK((says(ended, "rtrain runs rm " + second + " --files") && says(ended, "without --files")));
    REQUIRE(std::filesystem::exists(place + "/run.json"));

    const std::string apart = submit(head, at("digits", "/nowhere/at/all"), true);  // its files are in another place
    stop(head, apart);
    const Answer gone = remove(head, second);  // run.json has the first one's id
    CHECK(gone.status == 200);
    CHECK(gone.body["files"] == place);
    CHECK_FALSE(std::filesystem::exists(place));
    CHECK(remove(head, first).body["files_kept"] == "cluster://digits");
}

TEST_CASE("a directory of another cluster, or a run.json that is none, is not taken for a run's own") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const std::string place = folder.path + "/storage/digits";
    std::filesystem::create_directories(place);
    for (const json& header : {json{{"cluster_id", "another"}, {"run_id", "another-1"}},
                               json{{"cluster_id", head.started.cluster_id}}, json{{"cluster_id", 7}, {"run_id", 7}}}) {
        std::ofstream(place + "/run.json", std::ios::trunc) << header;
        const std::string run = submit(head, job("digits"), true);
        stop(head, run);
        CHECK(remove(head, run).body["files_kept"] == "cluster://digits");
        CHECK(std::filesystem::exists(place + "/run.json"));
    }
}

TEST_CASE(
    "files of a node that is away are not left behind in silence, and those of one that left are not waited for") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    {
        HandMadeAgent agent(join(head, "n1"), "n1");
        agent.register_node();
        run_on(head, agent, at("far", "/nowhere/at/all"));
    }
    REQUIRE(eventually([&] { return remove(head, "far").status == 409; }));
    const Answer away = remove(head, "far");
    CHECK((says(away, "not connected: n1") && says(away, "rtrain node leave")));
    REQUIRE(head.call("POST", "/v1/nodes/n1/leave").status == 200);
    CHECK(says(remove(head, "far"), "none is in the cluster any more"));
    CHECK(head.call("DELETE", "/v1/runs/far").status == 200);
}

TEST_CASE("what another node says is not taken for the answer of the one that was asked to remove files") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent asked(join(head, "n1"), "n1");
    asked.register_node();
    const std::string run = run_on(head, asked, at("far", "/nowhere/at/all"));
    HandMadeAgent other(join(head, "n2"), "n2");
    other.register_node();

    net::Client client(head.endpoint(head.admin));  // without Catch's assertions, which are for one thread
    auto answer = std::async(std::launch::async, [&] { return client.call(removal_of(run)); });
    const auto order = asked.expect<protocol::Clear>();
    CHECK(order.run_ids == std::vector<std::string>{run});
    CHECK((order.cluster_id == head.started.cluster_id && order.storage_path == "/nowhere/at/all"));
    other.say(protocol::Cleared{.id = order.id, .removed = true});
    other.tell(protocol::Notice{.attempt = {}, .text = "said after it"});
    other.expect<protocol::NewsAck>();
    asked.say(protocol::Cleared{.id = order.id, .error = "the disk is broken"});
    const auto answered = answer.get();
    REQUIRE(answered.ok());
    const Answer refused{answered->status, nullptr, answered->body};
    CHECK((refused.status >= 400 && says(refused, "node n1 could not remove") && says(refused, "the disk is broken")));
    CHECK(state_of(head, run) == "SUCCEEDED");
}

TEST_CASE("a removal that fails half-way is in the audit: files may be gone") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    const std::string run = run_on(head, agent, at("digits", "/nowhere/at/all"));
    auto answer = std::async(std::launch::async, [&] { return remove(head, run); });
    const auto order = agent.expect<protocol::Clear>();
    agent.say(protocol::Cleared{.id = order.id, .removed = false, .error = "no space left on device"});
    CHECK(answer.get().status >= 400);
    const Answer audit = head.call("GET", "/v1/audit?limit=1000");
    CHECK((says(audit, "DELETE /v1/runs/{run}") && says(audit, "/v1/runs/" + run + "?files=true")));
    CHECK(state_of(head, run) == "SUCCEEDED");
}

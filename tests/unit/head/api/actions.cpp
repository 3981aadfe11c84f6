// Actions of operators and of a run's user: quarantine, priority, verify, restore; and checkpoints that end with a
// node.
#include <fstream>

#include "storage/checkpoint/run_directory.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

constexpr const char* directory = "checkpoint_000001-a001";

// A head with node n1.
struct WithNode {
    TemporaryFolder folder;
    HeadUnderTest head{{.data_dir = folder.path}};
    HandMadeAgent agent{join(head, "n1"), "n1"};

    WithNode() {
        agent.register_node();
        REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/n1").status == 200; }));
    }
    protocol::AttemptRef running(const json& of_job) {
        REQUIRE(head.call("POST", "/v1/runs", {{"job", of_job}}).status == 201);
        const auto attempt = start_attempt(agent, 1);
        const std::string name = of_job["name"];
        REQUIRE(eventually([&] { return state_of(head, name) == "STARTING" || state_of(head, name) == "RUNNING"; }));
        return attempt;
    }
    // The attempt reports `directory`; with `commits` it commits it too.
    void reports(const protocol::AttemptRef& attempt, bool commits) {
        agent.tell(
            protocol::Reported{.attempt = attempt, .index = 1, .metrics_json = {{0, "{}"}}, .checkpoint = directory});
        if (commits)
            agent.tell(protocol::Committed{.attempt = attempt, .directory = directory, .index = 1, .world_size = 1});
        agent.tell(protocol::Reported{.attempt = attempt, .index = 2, .metrics_json = {{0, R"({"loss":1})"}}});
        REQUIRE(eventually([&] { return head.call("GET", "/v1/runs/digits").body["last_report"]["index"] == 2; }));
    }
    json run() const { return head.call("GET", "/v1/runs/digits").body; }
};

// Writes the files of the run's checkpoint below cluster://.
void store_checkpoint(const std::string& root, const std::string& content) {
    auto store = storage::open_file_store(root).value();
    REQUIRE(storage::create_run(*store, {.name = "digits", .cluster_id = "c", .run_id = "r", .user = "root"}).value());
    const std::string path = std::string("digits/") + directory + "/model.pt";
    REQUIRE(store->put(path, content));
    const storage::ManifestFile file{.path = "model.pt",
                                     .bytes = static_cast<std::int64_t>(content.size()),
                                     .sha256 = security::sha256_hex(content)};
    REQUIRE(storage::write_manifest(
        *store, "digits",
        {.directory = directory, .attempt = 1, .report = 1, .world_size = 1, .metrics_json = "{}", .files = {file}}));
}

}  // namespace

TEST_CASE("quarantine by hand: nothing new on the node until undrain") {
    WithNode world;
    const Answer answer = world.head.call("POST", "/v1/nodes/n1/quarantine", {{"reason", "odd ECC errors"}});
    REQUIRE(answer.status == 200);
    CHECK(answer.body["state"] == "QUARANTINED");
    CHECK(says(answer, "odd ECC errors"));
    REQUIRE(world.head.call("POST", "/v1/runs", {{"job", job("digits")}}).status == 201);
    CHECK(state_of(world.head, "digits") == "QUEUED");
    CHECK(world.head.call("POST", "/v1/nodes/n1/undrain").body["state"] == "READY");
    world.agent.expect<protocol::Prepare>();
    CHECK(world.head.call("POST", "/v1/nodes/n1/quarantine", {{"reason", 1}}).status == 400);
    CHECK(world.head.call("POST", "/v1/nodes/n9/quarantine").status == 404);
    CHECK(says(world.head.call("GET", "/v1/audit"), "POST /v1/nodes/{node}/quarantine"));
}

TEST_CASE("the priority of a live run changes its place in the queue") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    for (const char* name : {"first", "second"})
        REQUIRE(head.call("POST", "/v1/runs", {{"job", job(name)}}).status == 201);
    CHECK(head.call("POST", "/v1/runs/second/priority", {{"priority", 80}}).body["priority"] == 80);
    CHECK(head.call("GET", "/v1/queue").body["items"][0]["name"] == "second");
    for (const json& wrong : {json(-1), json(101), json("80"), json(1.5), json()})
        CHECK(head.call("POST", "/v1/runs/second/priority", {{"priority", wrong}}).status == 400);
    head.call("POST", "/v1/runs/second/stop", {{"now", true}});
    CHECK(head.call("POST", "/v1/runs/second/priority", {{"priority", 1}}).status == 409);
    CHECK(says(head.call("GET", "/v1/audit"), "/priority priority=80"));
}

TEST_CASE("verify hashes the files of a checkpoint and records the result") {
    WithNode world;
    world.reports(world.running(job("digits")), true);
    REQUIRE(eventually([&] { return world.run()["checkpoints"] == 1; }));
    const auto verify = [&] {
        return world.head.call("POST", "/v1/runs/digits/checkpoints/verify", {{"checkpoint", directory}});
    };
    CHECK(verify().status == 404);  // the head does not see the directory
    store_checkpoint(world.folder.path + "/storage", "weights");
    CHECK(verify().body["faults"] == 0);
    const auto recorded = [&] {
        return world.head.call("GET", "/v1/runs/digits/checkpoints").body["items"][0]["faults"];
    };
    CHECK(recorded() == 0);
    std::ofstream(world.folder.path + "/storage/digits/" + directory + "/model.pt") << "WEIGHTS";
    const Answer damaged = verify();
    CHECK(damaged.body["faults"] == 1);
    CHECK(damaged.body["damaged"][0].get<std::string>().starts_with("model.pt: content has changed"));
    CHECK(recorded() == 1);
    CHECK(world.head.call("POST", "/v1/runs/digits/checkpoints/verify", {{"checkpoint", "other"}}).status == 404);
    CHECK(world.head.call("POST", "/v1/runs/digits/checkpoints/verify").status == 404);
}

TEST_CASE("restore goes on with an ended run from one of its checkpoints") {
    WithNode world;
    const auto restore = [&](const json& body) { return world.head.call("POST", "/v1/runs/digits/restore", body); };
    const auto attempt = world.running(job("digits"));
    world.reports(attempt, true);
    REQUIRE(eventually([&] { return world.run()["checkpoints"] == 1; }));
    CHECK(restore({{"checkpoint", directory}}).status == 409);  // it trains
    world.head.call("POST", "/v1/runs/digits/priority", {{"priority", 70}});
    end_well(world.agent, attempt, 1);
    REQUIRE(eventually([&] { return state_of(world.head, "digits") == "SUCCEEDED"; }));
    CHECK(restore({{"checkpoint", "checkpoint_000009-a001"}}).status == 404);
    CHECK(restore({{"checkpoint", 5}}).status == 400);
    const Answer again = restore({{"checkpoint", directory}});
    REQUIRE(again.status == 201);
    CHECK(again.body["name"] == "digits");
    CHECK(again.body["priority"] == 70);
    const auto prepare = world.agent.expect<protocol::Prepare>();
    CHECK(prepare.restore_from == directory);
    CHECK(prepare.attempt.run != attempt.run);
}

TEST_CASE("restore refuses a job whose secrets the head does not keep") {
    WithNode world;
    json with_secret = job("digits");
    with_secret["secrets"] = {"KEY"};
    REQUIRE(world.head.call("POST", "/v1/runs", {{"job", with_secret}, {"secrets", {{"KEY", "v"}}}}).status == 201);
    world.head.call("POST", "/v1/runs/digits/stop", {{"now", true}});
    const auto attempt = world.agent.expect<protocol::Prepare>().attempt;
    world.agent.expect<protocol::Stop>();
    world.agent.tell(protocol::Emptied{attempt});
    REQUIRE(eventually([&] { return state_of(world.head, "digits") == "STOPPED"; }));
    const Answer refused = world.head.call("POST", "/v1/runs/digits/restore", {{"checkpoint", ""}});
    CHECK(refused.status == 400);
    CHECK(says(refused, "needs their values again"));
}

// The life of a run on a real head, with an agent made by hand on the other side.
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

TEST_CASE("a job goes from submit to SUCCEEDED: prepared, launched, reported, committed, logged") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    CHECK(agent.register_node().cluster_id == head.started.cluster_id);
    REQUIRE(eventually([&] { return head.call("GET", "/v1/status").body["nodes"].value("READY", 0) == 1; }));

    const Answer submitted = head.call("POST", "/v1/runs", {{"job", job("digits", 2)}, {"key", "k1"}});
    REQUIRE(submitted.status == 201);
    CHECK(submitted.body["name"] == "digits");
    CHECK(head.call("POST", "/v1/runs", {{"job", job("digits", 2)}, {"key", "k1"}}).status == 200);

    const auto attempt = start_attempt(agent, 2);
    agent.tell(protocol::Reported{
        .attempt = attempt, .index = 1, .wall_ms = 5'000, .metrics_json = {{0, R"({"loss":0.25})"}}});
    agent.tell(protocol::Committed{.attempt = attempt,
                                   .directory = "checkpoint_000001-a001",
                                   .metrics_json = R"({"loss":0.25})",
                                   .index = 1,
                                   .world_size = 2,
                                   .bytes = 12,
                                   .wall_ms = 5'000});
    agent.say(protocol::LogChunk{
        .attempt = attempt, .rank = 0, .stream = "out", .offset = 0, .bytes = "hello\nworld\n", .last = true});
    CHECK(agent.expect<protocol::LogAck>().offset == 12);
    REQUIRE(eventually([&] { return state_of(head, "digits") == "RUNNING"; }));
    end_well(agent, attempt, 2);
    REQUIRE(eventually([&] { return state_of(head, "digits") == "SUCCEEDED"; }));

    const json run = head.call("GET", "/v1/runs/digits").body;
    CHECK(run["last_report"]["metrics"]["loss"] == 0.25);
    CHECK(run["latest_checkpoint"] == "checkpoint_000001-a001");
    CHECK(run["job"]["name"] == "digits");
    CHECK(head.call("GET", "/v1/runs/digits/metrics").body["items"].size() == 1);
    CHECK(head.call("GET", "/v1/runs/digits/checkpoints").body["items"][0]["latest"] == true);
    CHECK(head.call("GET", "/v1/runs/digits/attempts").body["items"][0]["workers"][1]["exit_code"] == 0);
    CHECK(head.call("GET", "/v1/runs/digits/logs?tail=1").text.find("\"line\":\"world\"") != std::string::npos);
    CHECK(eventually([&] { return std::filesystem::exists(folder.path + "/storage/digits/result.json"); }));
    CHECK_FALSE(head.call("GET", "/v1/events?run=digits").body["items"].empty());
    CHECK(head.call("POST", "/v1/runs/digits/stop").status == 200);
}

TEST_CASE("news are acknowledged once durable, repeats change nothing, and a restarted head goes on where it was") {
    const TemporaryFolder folder;
    std::string admin;
    net::Endpoint node;
    std::uint64_t acknowledged = 0;
    protocol::AttemptRef attempt;
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        node = join(head, "n1");
        HandMadeAgent agent(node, "n1");
        agent.register_node();
        REQUIRE(head.call("POST", "/v1/runs", {{"job", job("long", 2)}}).status == 201);
        attempt = start_attempt(agent, 2);
        agent.say(protocol::News{agent.seq, protocol::Started{.attempt = attempt, .rank = 0, .pid = 999}});
        REQUIRE(eventually([&] { return agent.expect<protocol::NewsAck>().seq == agent.seq; }));
        CHECK(head.call("GET", "/v1/runs/long/attempts").body["items"][0]["workers"][0]["pid"] == 100);
        acknowledged = agent.seq;
    }
    HeadUnderTest again({.data_dir = folder.path});
    again.admin = admin;
    CHECK(again.started.admin_token.empty());
    node.port = again.started.port;
    HandMadeAgent agent(node, "n1");
    agent.seq = acknowledged;
    CHECK(agent.register_node({attempt}).news_seen == acknowledged);
    CHECK(state_of(again, "long") == "RUNNING");
    end_well(agent, attempt, 2);
    CHECK(eventually([&] { return state_of(again, "long") == "SUCCEEDED"; }));
    const auto attempts = again.call("GET", "/v1/runs/long/attempts").body["items"];
    CHECK(attempts.size() == 1);
}

TEST_CASE("silence for node_timeout loses the node, a broken connection alone does not") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path, .node_timeout_ms = 3'000});
    const net::Endpoint node = join(head, "n1");
    const auto node_state = [&] { return head.call("GET", "/v1/nodes/n1").body.value("state", ""); };
    {
        HandMadeAgent agent(node, "n1");
        agent.register_node();
        REQUIRE(eventually([&] { return node_state() == "READY"; }));
    }
    {
        HandMadeAgent agent(node, "n1");
        agent.register_node();
        CHECK(node_state() == "READY");
    }
    CHECK(eventually([&] { return node_state() == "LOST"; }));
    CHECK(head.call("GET", "/v1/nodes/n1").body["reason"].get<std::string>().find("no heartbeat") != std::string::npos);
    HandMadeAgent agent(node, "n1");
    agent.register_node();
    CHECK(eventually([&] { return node_state() == "READY"; }));
}

TEST_CASE("a lost node whose connection lives on is hung up on, so that it dials and registers again") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path, .node_timeout_ms = 1'200});
    const net::Endpoint node = join(head, "n1");
    HandMadeAgent silent(node, "n1");
    silent.register_node();
    CHECK(silent.expect_closed().find("taken for lost: no heartbeat") != std::string::npos);
    CHECK(eventually([&] { return head.call("GET", "/v1/nodes/n1").body.value("state", "") == "LOST"; }));
    HandMadeAgent agent(node, "n1");
    agent.register_node();
    CHECK(eventually([&] { return head.call("GET", "/v1/nodes/n1").body.value("state", "") == "READY"; }));
}

TEST_CASE("an agent that offers more than is counted of one node is turned away, and told what to do") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.say(protocol::Hello{.node = "n1"});
    agent.expect<protocol::Welcome>();
    agent.say(protocol::Register{.total = {{"x", Amount{INT64_MAX}}}, .next_news = 1});
    const auto refusal = agent.expect<protocol::Refuse>();
    CHECK(refusal.message == "node 'n1' offers 922337203685477.5807 x, an amount is from 0 to 400000000000000");
    CHECK(refusal.next.find("--resources") != std::string::npos);
    CHECK_FALSE(refusal.left);
}

TEST_CASE("a second connection of a node replaces the first") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint node = join(head, "n1");
    HandMadeAgent first(node, "n1");
    first.register_node();
    HandMadeAgent second(node, "n1");
    second.register_node();
    CHECK_FALSE(first.expect_closed().empty());
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("on-second")}}).status == 201);
    start_attempt(second, 1);
}

TEST_CASE("an agent that calls itself otherwise than its certificate is turned away, and so is one that left") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint node = join(head, "n1");
    HandMadeAgent impostor(node, "n2");
    impostor.say(protocol::Hello{.node = "n2"});
    CHECK(impostor.expect<protocol::Refuse>().message.find("certificate is for node 'n1'") != std::string::npos);

    HandMadeAgent honest(node, "n1");
    honest.register_node();
    REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes").body["items"].size() == 1; }));
    CHECK(head.call("POST", "/v1/nodes/n1/leave").status == 200);
    honest.expect<protocol::Refuse>();
    for (const char* target : {"/v1/agents", "/v1/storage/?list=1", "/v1/blobs/x"}) {
        const Answer answer = HeadUnderTest::send(node, {.target = target});
        INFO(target);
        CHECK(answer.status == 401);
        CHECK(answer.text.find("has left") != std::string::npos);
    }
}

TEST_CASE("a metric named under stop ends the run as SUCCEEDED") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    json with_stop = job("enough");
    with_stop["stop"] = {{"epoch", 3}};
    REQUIRE(head.call("POST", "/v1/runs", {{"job", with_stop}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    agent.tell(protocol::Reported{.attempt = attempt, .index = 1, .metrics_json = {{0, R"({"epoch":2})"}}});
    agent.tell(protocol::Reported{.attempt = attempt, .index = 2, .metrics_json = {{0, R"({"epoch":3})"}}});
    CHECK(agent.expect<protocol::Stop>().why.find("epoch reached 3") != std::string::npos);
    agent.tell(protocol::Emptied{attempt});
    CHECK(eventually([&] { return state_of(head, "enough") == "SUCCEEDED"; }));
}

TEST_CASE("names: taken is 409 with the way out, `new` finds another, and the run is found by name, id and prefix") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const json first = head.call("POST", "/v1/runs", {{"job", job("same")}}).body;
    const Answer second = head.call("POST", "/v1/runs", {{"job", job("same")}});
    CHECK(second.status == 409);
    CHECK(second.body["next"].get<std::string>().find("same-2") != std::string::npos);
    CHECK(head.call("POST", "/v1/runs", {{"job", job("same")}, {"new", true}}).body["name"] == "same-2");
    const std::string id = first["run_id"];
    CHECK(head.call("GET", "/v1/runs/" + id).body["name"] == "same");
    CHECK(head.call("GET", "/v1/runs/nobody").status == 404);
    CHECK(head.call("GET", "/v1/runs?limit=1").body["next_cursor"].is_string());
    CHECK(head.call("DELETE", "/v1/runs/same").status == 409);
    CHECK(head.call("POST", "/v1/runs/same/stop", {{"now", 1}}).status == 400);
    CHECK(head.call("POST", "/v1/runs/same/stop", {{"now", true}, {"checkpoint", true}}).status == 400);
    CHECK(head.call("POST", "/v1/runs/same/stop", {{"now", true}}).status == 202);
    CHECK(head.call("DELETE", "/v1/runs/same?dry_run=true").body["name"] == "same");
    CHECK(head.call("DELETE", "/v1/runs/same").status == 200);
    CHECK(head.call("GET", "/v1/runs/" + id).status == 404);
    CHECK(head.call("GET", "/v1/queue").body["items"][0]["name"] == "same-2");
    CHECK(head.call("GET", "/v1/runs/same-2/explain").body["headline"].get<std::string>().find("QUEUED") == 0);
}

TEST_CASE("a run that its sweep stops names the sweep, not the user") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    json trial = job("trial");
    trial["stop"] = {{"step", 5}};
    head.call("POST", "/v1/runs", {{"job", trial}});
    CHECK(head.call("GET", "/v1/runs").body["items"][0]["stop"] == json{{"step", 5}});
    const Answer odd = head.call("POST", "/v1/runs/trial/stop", {{"for", "a better life"}});
    CHECK(odd.status == 400);
    CHECK(odd.body["message"].get<std::string>().find("scheduler, exploit") != std::string::npos);
    CHECK(head.call("POST", "/v1/runs/trial/stop", {{"for", 1}}).status == 400);
    CHECK(head.call("POST", "/v1/runs/trial/stop", {{"for", "scheduler"}}).status == 202);
    CHECK(head.call("GET", "/v1/runs/trial").body["reason_brief"] == "stopped by its sweep's scheduler");
}

TEST_CASE("the queue shows what another run or an array's limit holds back, behind those that have a position") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    json after = job("second");
    after["after"] = json::array({"first"});
    head.call("POST", "/v1/runs", {{"job", job("first")}});
    REQUIRE(head.call("POST", "/v1/runs", {{"job", after}}).status == 201);
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("grid")}, {"array", "1-2%1"}}).status == 201);
    const json items = head.call("GET", "/v1/queue").body["items"];
    REQUIRE(items.size() == 4);
    CHECK(items[1]["name"] == "grid-1");
    CHECK(items[1]["position"] == 2);
    CHECK(items[2]["name"] == "second");
    CHECK(items[2]["position"].is_null());
    CHECK(items[2]["why"] == "waits for first to succeed");
    CHECK(items[3]["why"] == "array grid runs at most 1 at a time");
    const json why = head.call("GET", "/v1/runs/second/explain").body;
    CHECK(why["headline"].get<std::string>().find("waits for first to succeed") != std::string::npos);
}

TEST_CASE("a wrong submission is answered with all its problems at once") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    json wrong = job("wrong");
    wrong["scaling"]["wrokers"] = 3;
    wrong["secrets"] = {"HF_TOKEN"};
    const Answer answer = head.call("POST", "/v1/runs", {{"job", wrong}, {"code_sha256", "zz"}, {"resume", "yes"}});
    CHECK(answer.status == 422);
    CHECK(answer.body["code"] == "invalid");
    CHECK(answer.body["problems"].size() >= 3);
    CHECK(head.call("POST", "/v1/runs", json::array()).status == 400);
    CHECK(head.call("POST", "/v1/plan", {{"job", job("p")}}).body.contains("verdict"));
    json impatient = job("impatient");
    impatient["scaling"]["wait_for_nodes"] = false;
    CHECK(head.call("POST", "/v1/runs", {{"job", impatient}}).body["code"] == "unplaceable");
}

TEST_CASE("the channel of a run goes to its workers, and to its submitter on request only") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    const json body = {{"job", job("calls")}, {"key", "k"}, {"channel", true}};
    const Answer submitted = head.call("POST", "/v1/runs", body);
    REQUIRE(submitted.status == 201);
    const std::string channel = submitted.body.at("channel");
    CHECK(head.call("POST", "/v1/runs", body).body.at("channel") == channel);
    CHECK_FALSE(head.call("POST", "/v1/runs", {{"job", job("calls")}, {"key", "k"}}).body.contains("channel"));
    CHECK(head.call("GET", "/v1/runs/calls").text.find(channel) == std::string::npos);
    const auto prepare = agent.expect<protocol::Prepare>();
    agent.tell(protocol::Prepared{
        .attempt = prepare.attempt, .claimed = true, .master_address = "127.0.0.1", .master_port = 1});
    CHECK(agent.expect<protocol::Launch>().secrets.at("RTRAIN_CHANNEL") == channel);
}

TEST_CASE("a job array has no channel in common") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const Answer refused = head.call("POST", "/v1/runs", {{"job", job("many")}, {"array", "1-2"}, {"channel", true}});
    CHECK(refused.status == 422);
    CHECK(refused.text.find("each run of a job array has its own channel") != std::string::npos);
}

TEST_CASE("secrets go to the node that needs them, appear nowhere else, and are gone with the run") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    json secretive = job("secretive");
    secretive["secrets"] = {"HF_TOKEN"};
    const Answer submitted =
        head.call("POST", "/v1/runs", {{"job", secretive}, {"secrets", {{"HF_TOKEN", "hf_12345"}}}});
    REQUIRE(submitted.status == 201);
    CHECK(submitted.text.find("hf_12345") == std::string::npos);
    const auto prepare = agent.expect<protocol::Prepare>();
    CHECK(protocol::encode(protocol::FromHead{prepare}).find("hf_12345") == std::string::npos);
    agent.tell(protocol::Prepared{
        .attempt = prepare.attempt, .claimed = true, .master_address = "127.0.0.1", .master_port = 1});
    const auto launch = agent.expect<protocol::Launch>();
    CHECK(launch.secrets.at("HF_TOKEN") == "hf_12345");
    CHECK(head.call_as(launch.token, "GET", "/v1/runs").status == 200);
    CHECK(head.call_as(launch.token, "GET", "/v1/tokens").status == 403);
    head.call("POST", "/v1/runs/secretive/stop");
    agent.expect<protocol::Stop>();
    agent.tell(protocol::Emptied{launch.attempt});
    REQUIRE(eventually([&] { return state_of(head, "secretive") == "STOPPED"; }));
    CHECK(std::filesystem::is_empty(folder.path + "/secrets"));
    CHECK(head.call_as(launch.token, "GET", "/v1/runs").status == 401);
}

// Helpers that may yield: their owner is determined by authentication, and gives them its queue and its secrets.
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

json helper_job(const std::string& name, int cpus = 1) {
    json made = job(name);
    made["scaling"] = {{"workers", 1}, {"resources_per_worker", {{"CPU", cpus}}}};
    return made;
}

struct OwnedWorld {  // a run of ann with one worker, whose token a test has
    TemporaryFolder folder;
    HeadUnderTest head{{.data_dir = folder.path}};
    HandMadeAgent agent{join(head, "n1"), "n1"};
    std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
    protocol::Launch launch;

    OwnedWorld() {
        agent.register_node();  // 8 CPUs
        REQUIRE(eventually([&] { return head.call("GET", "/v1/status").body["nodes"].value("READY", 0) == 1; }));
        json owner = helper_job("owner");
        owner["secrets"] = {"KEY"};
        REQUIRE(head.call_as(ann, "POST", "/v1/runs", {{"job", owner}, {"secrets", {{"KEY", "of-owner"}}}}).status ==
                201);
        launch = started();
    }
    protocol::Launch started() {
        const auto prepare = agent.expect<protocol::Prepare>();
        agent.tell(protocol::Prepared{
            .attempt = prepare.attempt, .claimed = true, .master_address = "127.0.0.1", .master_port = 20'000});
        return agent.expect<protocol::Launch>();
    }
    std::string problem(const std::string& token, const json& body) {
        const Answer answer = head.call_as(token, "POST", "/v1/runs", body);
        INFO(answer.text);
        REQUIRE(answer.status == 422);
        return answer.body["problems"][0]["path"].get<std::string>() + ": " +
               answer.body["problems"][0]["message"].get<std::string>();
    }
};

}  // namespace

TEST_CASE("a submission with yields needs an owner, one worker and a boolean") {
    OwnedWorld world;
    CHECK(world.problem(world.ann, {{"job", helper_job("alone")}, {"yields", true}}) ==
          "yields: a run that may yield belongs to a run or a session, and this one has no owner");
    CHECK(world.problem(world.ann, {{"job", helper_job("odd")}, {"session", "s"}, {"yields", "yes"}}) ==
          "yields: must be true or false");
    json gang = helper_job("gang");
    gang["scaling"]["workers"] = 2;
    CHECK(world.problem(world.ann, {{"job", gang}, {"session", "s"}, {"yields", true}}) ==
          "yields: a run that may yield has one worker");
    CHECK(
        world.problem(world.ann, {{"job", helper_job("grid")}, {"session", "s"}, {"yields", true}, {"array", "1-2"}}) ==
        "yields: a run that may yield is no job array and does not resume a run");
    json slow = helper_job("slow");
    slow["limits"] = {{"stop_grace", "31s"}};
    const Answer slow_end =
        world.head.call_as(world.ann, "POST", "/v1/runs", {{"job", slow}, {"session", "s"}, {"yields", true}});
    CHECK(slow_end.status == 422);
    CHECK(slow_end.text.find("at most 30 s") != std::string::npos);
    const Answer plain = world.head.call_as(world.ann, "POST", "/v1/runs", {{"job", helper_job("plain")}});
    REQUIRE(plain.status == 201);
    CHECK(plain.body.at("yields").is_null());
}

TEST_CASE("a helper has its owner's queue, secrets and label, and ends with it") {
    OwnedWorld world;
    world.head.call("PUT", "/v1/queues", {{"queues", {{"default", json::object()}, {"lab", json::object()}}}});
    json child = helper_job("child");
    child["queue"] = "lab";
    child["secrets"] = {"KEY"};
    CHECK(world.problem(world.launch.token, {{"job", child}, {"yields", true}}) ==
          "queue: a run that may yield uses the queue of its owner, default");
    child.erase("queue");
    const Answer made = world.head.call_as(world.launch.token, "POST", "/v1/runs", {{"job", child}, {"yields", true}});
    INFO(made.text);
    REQUIRE(made.status == 201);
    CHECK(made.body.at("yields") == true);
    CHECK(made.body.at("user") == "ann");
    const json owner = world.head.call("GET", "/v1/runs/owner").body;
    CHECK(made.body.at("labels").at("rtrain.parent") == owner.at("run_id"));
    CHECK(world.started().secrets.at("KEY") == "of-owner");
    REQUIRE(world.head.call_as(world.ann, "POST", "/v1/runs/owner/stop").status == 202);
    CHECK(world.head.call("GET", "/v1/runs/child").body.at("state") == "STOPPING");
    const Answer late =
        world.head.call_as(world.launch.token, "POST", "/v1/runs", {{"job", helper_job("late")}, {"yields", true}});
    CHECK(late.status == 409);
}

TEST_CASE("yields is changed by who may stop the run, for helpers alone") {
    OwnedWorld world;
    const json pool = {{"job", helper_job("pool", 7)}, {"session", "s"}, {"yields", false}};
    REQUIRE(world.head.call_as(world.ann, "POST", "/v1/runs", pool).body.at("yields") == false);
    CHECK(world.head.call_as(world.bob, "POST", "/v1/runs/pool/yields", {{"yields", true}}).status == 403);
    CHECK(world.head.call_as(world.ann, "POST", "/v1/runs/pool/yields", {{"yields", 1}}).status == 400);
    CHECK(world.head.call_as(world.ann, "POST", "/v1/runs/owner/yields", {{"yields", true}}).status == 409);
    const Answer on = world.head.call_as(world.ann, "POST", "/v1/runs/pool/yields", {{"yields", true}});
    CHECK(on.status == 202);
    CHECK(on.body.at("yields") == true);
    REQUIRE(world.head.call_as(world.bob, "POST", "/v1/runs", {{"job", helper_job("other", 4)}}).status == 201);
    const json ended = world.head.call("GET", "/v1/runs/pool").body;
    CHECK(ended.at("reason_kind") == "yielded_to");
    CHECK(world.head.call_as(world.ann, "POST", "/v1/runs/pool/yields", {{"yields", false}}).status == 409);
}

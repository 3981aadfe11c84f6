// The head determines a run's program by authentication. A reservation that waits for one run of a program lets the
// program's other runs pass, but no others.
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

json cpu_job(const std::string& name, int cpus) {
    json made = job(name);
    made["scaling"]["resources_per_worker"] = {{"CPU", cpus}};
    return made;
}

std::string state_after(const Answer& submitted) {
    INFO(submitted.text);
    REQUIRE(submitted.status == 201);
    return submitted.body.at("state");
}

}  // namespace

TEST_CASE("a run passes the reservation that waits for its own program, known by token and session") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();  // 8 CPUs
    REQUIRE(eventually([&] { return head.call("GET", "/v1/status").body["nodes"].value("READY", 0) == 1; }));
    const std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
    const auto submit = [&](const std::string& token, const json& body) {
        return state_after(head.call_as(token, "POST", "/v1/runs", body));
    };
    CHECK(submit(ann, {{"job", cpu_job("actor", 4)}, {"session", "s"}}) == "STARTING");
    const auto prepare = agent.expect<protocol::Prepare>();
    agent.tell(protocol::Prepared{
        .attempt = prepare.attempt, .claimed = true, .master_address = "127.0.0.1", .master_port = 20'000});
    const auto launch = agent.expect<protocol::Launch>();
    CHECK(submit(bob, {{"job", cpu_job("waits", 8)}, {"session", "t"}}) == "QUEUED");  // reserves all

    CHECK(submit(bob, {{"job", cpu_job("other-user", 1)}, {"session", "s"}}) == "QUEUED");
    CHECK(submit(ann, {{"job", cpu_job("no-session", 1)}}) == "QUEUED");
    CHECK(submit(ann, {{"job", cpu_job("other-session", 1)}, {"session", "u"}}) == "QUEUED");
    json forged = cpu_job("forged", 1);
    forged["labels"] = {{"rtrain.parent", head.call("GET", "/v1/runs/actor").body.at("run_id")},
                        {"rtrain.program", "run-1"}};
    forged["env"] = {{"RTRAIN_PROGRAM", "run-1"}};
    CHECK(submit(bob, {{"job", forged}, {"program", "run-1"}}) == "QUEUED");

    CHECK(submit(ann, {{"job", cpu_job("own", 1)}, {"session", "s"}}) == "STARTING");
    CHECK(submit(launch.token, {{"job", cpu_job("child", 1)}, {"session", "t"}}) == "STARTING");
    const json children =
        head.call("GET", "/v1/runs?parent=" + head.call("GET", "/v1/runs/actor").body.at("run_id").get<std::string>())
            .body.at("items");
    REQUIRE(children.size() == 1);  // a run that only claims to belong to it is not included
    CHECK(children[0].at("name") == "child");
    CHECK(head.call_as(ann, "POST", "/v1/runs", {{"job", job("long")}, {"session", std::string(201, 's')}}).status ==
          422);
}

// The head removes old logs. Agents remove the files of a removed run.
#include <fstream>

#include "base/json_text.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

TEST_CASE("logs past logs.keep go at the head's next start") {
    const TemporaryFolder folder;
    std::string admin;
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        HandMadeAgent agent(join(head, "n1"), "n1");
        agent.register_node();
        json spec = job("short");
        spec["logs"] = {{"keep", "1ms"}};
        REQUIRE(head.call("POST", "/v1/runs", {{"job", spec}}).status == 201);
        const auto attempt = start_attempt(agent, 1);
        agent.say(protocol::LogChunk{.attempt = attempt, .stream = "out", .bytes = "a line\n"});
        CHECK(agent.expect<protocol::LogAck>().offset == 7);
        end_well(agent, attempt, 1);
        REQUIRE(eventually([&] { return state_of(head, "short") == "SUCCEEDED"; }));
        CHECK(head.call("GET", "/v1/runs/short/logs").text.find("a line") != std::string::npos);
    }
    HeadUnderTest head({.data_dir = folder.path});
    head.admin = admin;
    CHECK(eventually([&] { return head.call("GET", "/v1/runs/short/logs").text.empty(); }));
}

TEST_CASE("agents are told to let go of the attempts of a removed run") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("gone")}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    end_well(agent, attempt, 1);
    REQUIRE(eventually([&] { return state_of(head, "gone") == "SUCCEEDED"; }));
    REQUIRE(head.call("DELETE", "/v1/runs/gone").status == 200);
    CHECK(agent.expect<protocol::Forget>().attempt == attempt);
}

TEST_CASE("what is said of a checkpoint deeper in the run has one key, its path percent-encoded") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("deeper")}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    const auto put = [&](const std::string& key) {  // the path of a request is decoded once more
        return head.call("PUT", "/v1/runs/deeper/values/validation-" + key, {{"status", "PENDING_VALIDATION"}}).status;
    };
    CHECK(put("epochs%252F3") == 409);  // unknown yet
    agent.tell(protocol::Committed{.attempt = attempt, .directory = "epochs/3", .world_size = 1});
    CHECK(eventually([&] { return put("epochs%252F3") == 200; }));
    for (const char* other : {"epochs%252f3", "%2565pochs%252F3", "epochs%25", "epochs_3"}) CHECK(put(other) == 409);
    CHECK(put("epochs/3") == 404);  // no route
    const std::string place = folder.path + "/values/" + std::to_string(attempt.run);
    CHECK(std::filesystem::exists(place + "/validation-epochs%2F3"));
    CHECK(std::distance(std::filesystem::directory_iterator(place), std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("a run has 1000 values beside what was said of its checkpoints, which goes with them") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    json spec = job("validates");
    spec["checkpoint"] = {{"num_to_keep", 1'001}};
    REQUIRE(head.call("POST", "/v1/runs", {{"job", spec}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    const std::string place = folder.path + "/values/" + std::to_string(attempt.run),
                      route = "/v1/runs/validates/values/";
    const auto put = [&](const std::string& key, const json& value) { return head.call("PUT", route + key, value); };
    const json pending = {{"status", "PENDING_VALIDATION"}},
               validated = {{"status", "VALIDATED"}, {"metrics", {{"a", 1}}}};
    for (int i = 0; i <= 1'000; ++i) {
        const std::string directory = "checkpoint_" + std::to_string(i);
        agent.tell(protocol::Committed{.attempt = attempt, .directory = directory, .world_size = 1});
        if (i > 0 && i % 50 == 0)  // a debug build counts all of them again for each
            REQUIRE(eventually([&] { return put("validation-" + directory, pending).status == 200; }));
    }
    for (int i = 0; i < 1'000; ++i) {
        std::ofstream(place + "/validation-checkpoint_" + std::to_string(i)) << json_text(validated);
        if (i < 999) std::ofstream(place + "/other-" + std::to_string(i)) << "1";
    }
    CHECK(put("validation-checkpoint_1000", validated).status == 200);
    CHECK(put("other-999", 1).status == 200);
    CHECK(put("other-1000", 1).status == 507);
    CHECK(put("other-999", 2).status == 200);
    std::filesystem::remove(place + "/validation-checkpoint_7");
    CHECK(put("validation-checkpoint_7", pending).status == 200);

    agent.tell(protocol::Committed{.attempt = attempt, .directory = "checkpoint_1001", .world_size = 1});
    CHECK(agent.expect<protocol::Delete>().directory == "checkpoint_0");
    agent.tell(protocol::Deleted{.run = attempt.run, .directory = "checkpoint_0"});
    REQUIRE(eventually([&] { return put("validation-checkpoint_0", pending).status == 409; }));
    CHECK(put("validation-checkpoint_0", validated).status == 200);
    CHECK(head.call("GET", route + "validation-checkpoint_0").status == 404);
    CHECK(head.call("GET", route + "validation-checkpoint_8").body == validated);
}

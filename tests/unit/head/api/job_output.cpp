// The output of a job's processes within causes and reasons: only its user and admins see it.
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

const std::string words = "ValueError: the key is s3cr3t";

struct OutputStory {
    OutputStory() {
        agent.register_node();
        const Answer made = head.call_as(ann, "POST", "/v1/runs", {{"job", job("digits")}});
        REQUIRE(made.status == 201);
        run = made.body["run_id"];
    }
    void ends(const std::string& state) {
        REQUIRE(eventually([&] { return state_of(head, run) == state; }));
    }
    std::string read(const std::string& token, const std::string& target) const {
        const Answer answer = head.call_as(token, "GET", target);
        CHECK(answer.status == 200);
        return answer.text;
    }
    // Returns all routes about the run that a viewer may read.
    std::vector<std::string> routes() const {
        return {"/v1/runs?all=1", "/v1/runs/" + run, "/v1/runs/" + run + "/attempts", "/v1/runs/" + run + "/explain",
                "/v1/queue",      "/v1/events",      "/v1/events?run=" + run};
    }
    TemporaryFolder folder;
    HeadUnderTest head{{.data_dir = folder.path}};
    HandMadeAgent agent{join(head, "n1"), "n1"};
    std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob"),
                viewer = head.make_token("viewer", "carl");
    std::string run;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the last words of a rank that failed are its user's: others read how it ended") {
    OutputStory story;
    const auto attempt = start_attempt(story.agent, 1);
    ExitCause cause = exited(3);
    cause.detail = words + "\n  at line 7 of s3cr3t.py";
    story.agent.tell(protocol::Exited{.attempt = attempt, .rank = 0, .cause = cause, .exit_wall_us = 1});
    story.agent.expect<protocol::Stop>();
    story.agent.tell(protocol::Emptied{attempt});
    story.ends("FAILED");
    for (const std::string& route : story.routes())
        for (const std::string& token : {story.bob, story.viewer}) {
            INFO(route);
            const std::string seen = story.read(token, route);
            CHECK_FALSE(has(seen, "s3cr3t"));
            CHECK(has(seen, "exited with code 3 (hidden)") != (route == "/v1/queue"));
        }
    for (const std::string& token : {story.ann, story.head.admin})
        for (const std::string& route : {"/v1/runs/" + story.run, std::string("/v1/events")})
            CHECK(has(story.read(token, route), "s3cr3t.py"));
    CHECK(has(story.read(story.viewer, "/v1/runs/" + story.run + "/attempts"), "exit code 3"));
    CHECK(has(story.read(story.ann, "/v1/runs/" + story.run + "/attempts"), "exit code 3: " + words));

    REQUIRE(story.head.call_as(story.ann, "DELETE", "/v1/runs/" + story.run).status == 200);
    CHECK_FALSE(has(story.read(story.viewer, "/v1/events"), "s3cr3t"));
    CHECK(has(story.read(story.head.admin, "/v1/events"), "s3cr3t"));
}

TEST_CASE("an event is about the run that it happened to, and tells the users of runs that followed no words of it") {
    OutputStory story;
    json waiting = job("follows");
    waiting["after"] = json::array({"digits"});
    const Answer made = story.head.call_as(story.bob, "POST", "/v1/runs", {{"job", waiting}});
    REQUIRE(made.status == 201);
    const std::string follows = made.body["run_id"];
    const auto attempt = start_attempt(story.agent, 1);
    ExitCause cause = exited(3);
    cause.detail = words;
    story.agent.tell(protocol::Exited{.attempt = attempt, .rank = 0, .cause = cause, .exit_wall_us = 1});
    story.agent.expect<protocol::Stop>();
    story.agent.tell(protocol::Emptied{attempt});
    story.ends("FAILED");
    REQUIRE(eventually([&] { return state_of(story.head, follows) == "FAILED"; }));  // with its predecessor
    for (const std::string route : {"/v1/events", "/v1/events?run=follows", "/v1/runs/follows"})
        CHECK_FALSE(has(story.read(story.bob, route), "s3cr3t"));
    const std::string own = story.read(story.ann, "/v1/events?run=digits");
    CHECK(has(own, "digits is FAILED: rank 0 on n1: exited with code 3 (" + words));
    CHECK(has(own, "follows is FAILED"));  // from the same event
}

TEST_CASE("the last lines of a setup that failed are its user's") {
    OutputStory story;
    const auto prepare = story.agent.expect<protocol::Prepare>();
    const std::string why = "`pip install x` exited with 1; its last lines:\n  at s3cr3t.py\ndownloading\n" + words;
    story.agent.tell(protocol::PrepareFailed{.attempt = prepare.attempt, .why = why, .permanent = true});
    story.agent.tell(protocol::Emptied{prepare.attempt});
    story.ends("FAILED");
    for (const std::string& route : story.routes()) {
        INFO(route);
        const std::string seen = story.read(story.viewer, route);
        CHECK_FALSE((has(seen, "s3cr3t") || has(seen, "downloading")));
        CHECK(has(seen, "its last lines: (hidden)") != (route == "/v1/queue"));
        if (!has(route, "queue") && !has(route, "explain")) CHECK(has(story.read(story.ann, route), "s3cr3t"));
    }
}

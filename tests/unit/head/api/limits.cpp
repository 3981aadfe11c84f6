// Bounds of a single request: each input that could block the loop or fill the memory has a limit, which the refusal
// names.
#include "storage/job_spec/limits.hpp"

#include <set>

#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

std::string first_problem(const Answer& answer) {
    REQUIRE(answer.status == 422);
    const json& first = answer.body.at("problems").at(0);
    return first.at("path").get<std::string>() + ": " + first.at("message").get<std::string>();
}

json names(std::size_t count, const std::string& stem) {
    json out = json::array();
    for (std::size_t i = 0; i < count; ++i) out.push_back(stem + std::to_string(i));
    return out;
}

}  // namespace

TEST_CASE("a submission beyond a limit is refused with it, and a plan as well") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    json nodes = job("nodes"), workers = job("workers"), keys = job("keys");
    nodes["scaling"]["nodes"] = names(60'000, "n");
    workers["scaling"]["workers"] = 1'000'000;
    for (int i = 0; i < 60'000; ++i) keys["fieldd" + std::to_string(i)] = 1;
    for (const char* route : {"/v1/plan", "/v1/runs"}) {
        CHECK(first_problem(head.call("POST", route, {{"job", nodes}})) ==
              "scaling.nodes: has 60000 entries; the most is 2048");
        CHECK(first_problem(head.call("POST", route, {{"job", workers}})) == "scaling.workers: at most 16384 workers");
        const Answer many = head.call("POST", route, {{"job", keys}});
        CHECK(many.body.at("problems").size() == 101);
        CHECK(many.body.at("problems").back().at("message") == "and 59900 more problems");
        CHECK(many.body.at("message").get<std::string>().starts_with("more than 100 problem(s)"));
        CHECK(head.call("POST", route, {{"job", job("x")}, {"values", json::array_t(200'001, 1)}}).status == 400);
    }
    CHECK(head.call("GET", "/v1/runs").body.at("items").empty());
}

TEST_CASE("beside its job a submission has bounded secrets, lines, and a bounded array") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    json secrets = json::object();
    for (int i = 0; i < 257; ++i) secrets["S" + std::to_string(i)] = "v";
    CHECK(first_problem(head.call("POST", "/v1/runs", {{"job", job("s")}, {"secrets", secrets}})) ==
          "secrets: has 257 values; the most is 256");
    CHECK(first_problem(head.call(
              "POST", "/v1/runs",
              {{"job", job("l")}, {"lines", {{"file", std::string(20'000, 'f')}, {"at", {{"queue", 3}}}}}})) ==
          "lines: is longer than 16384 bytes");
    CHECK(
        first_problem(head.call("POST", "/v1/runs", {{"job", job("r")}, {"restore_from", std::string(5'000, 'c')}})) ==
        "restore_from: is longer than 4096 bytes");
    json heavy = job("a");
    heavy["env"] = {{"TEXT", std::string(100'000, 'x')}};
    CHECK(first_problem(head.call("POST", "/v1/runs", {{"job", heavy}, {"array", "1-10000"}}))
              .starts_with("array: 10000 runs of 10"));
    std::string ranges = "0-9999";
    for (int i = 1; i < 100; ++i) ranges += "," + std::to_string(i) + "0000-" + std::to_string(i) + "9999";
    CHECK(first_problem(head.call("POST", "/v1/runs", {{"job", job("b")}, {"array", ranges}}))
              .find("an array has at most 10000 runs") != std::string::npos);
    CHECK(head.call("GET", "/v1/runs").body.at("items").empty());
}

TEST_CASE("the runs of one user take a bounded part of the head's memory, until they are removed") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path,
                        .user_limit = head::KeptBytes{.memory = 1 << 20, .database = 1LL << 30, .files = 1 << 20}});
    const std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
    const auto submit = [&](const std::string& token, const std::string& name) {
        return head.call_as(token, "POST", "/v1/runs", {{"job", job(name, 5'000)}});
    };
    CHECK(submit(ann, "first").status == 201);
    const Answer refused = submit(ann, "second");
    CHECK(refused.status == 507);
    CHECK(refused.body.at("message").get<std::string>().starts_with("user ann has 6"));
    CHECK(refused.body.at("next").get<std::string>().find("rtrain runs rm") != std::string::npos);
    CHECK(refused.body.at("message").get<std::string>().find("limit of 1.0 MiB") != std::string::npos);
    CHECK(submit(bob, "other").status == 201);
    CHECK(head.call_as(ann, "POST", "/v1/runs/first/stop").status == 202);
    CHECK(submit(ann, "second").status == 507);  // ended runs count
    REQUIRE(head.call_as(ann, "DELETE", "/v1/runs/first").status == 200);
    CHECK(submit(ann, "second").status == 201);
    json heavy = job("heavy");
    heavy["env"] = {{"TEXT", std::string(100'000, 'x')}};
    int taken = 0;
    for (heavy["name"] = "h0"; head.call_as(bob, "POST", "/v1/runs", {{"job", heavy}}).status == 201;)
        heavy["name"] = "h" + std::to_string(++taken);
    CHECK(taken == 3);  // beside the 630 KiB of the run with many workers
}

TEST_CASE("a user has a bounded number of runs that have not ended") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path, .user_live_runs = 4});
    const std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
    const auto submit = [&](const std::string& token, const std::string& name, const std::string& array) {
        return head.call_as(token, "POST", "/v1/runs", {{"job", job(name)}, {"array", array}});
    };
    CHECK(submit(ann, "many", "0-2").status == 201);
    const Answer refused = submit(ann, "more", "0-1");
    CHECK(refused.status == 507);
    CHECK(refused.body.at("message") == "ann has 3 runs that have not ended, and this adds 2; the most is 4");
    CHECK(says(refused, "rtrain stop"));
    CHECK(submit(bob, "other", "0-1").status == 201);
    CHECK(head.call_as(ann, "POST", "/v1/runs/many-0/stop").status == 202);
    REQUIRE(eventually([&] { return head.call("GET", "/v1/runs/many-0").body.at("state") == "STOPPED"; }));
    CHECK(submit(ann, "more", "0-1").status == 201);
}

TEST_CASE("a fresh name is free, also behind many that are taken") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    std::set<std::string> names;
    for (int i = 0; i < 50; ++i) {
        const Answer made = head.call("POST", "/v1/runs", {{"job", job("digits")}, {"new", true}});
        REQUIRE(made.status == 201);
        names.insert(made.body.at("name").get<std::string>());
    }
    CHECK(names.size() == 50);
    CHECK(names.contains("digits"));
    CHECK(names.contains("digits-2"));
    CHECK(names.contains("digits-50"));
}

TEST_CASE("a long request is read beside the loop, and answered like a short one") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    json large = job("large");
    large["env"] = {{"TEXT", std::string(200'000, 'x')}};
    CHECK(head.call("POST", "/v1/plan", {{"job", large}}).status == 200);
    CHECK(head.call("POST", "/v1/runs", {{"job", large}, {"key", "k"}}).status == 201);
    CHECK(head.call("POST", "/v1/runs", {{"job", large}, {"key", "k"}}).status == 200);
    const Answer rows = head.call("GET", "/v1/audit");
    // Its row exists, as for a short one; the head's own row comes first.
    const json& submitted = rows.body.at("items").at(1);
    CHECK(submitted.at("action") == "POST /v1/runs");
    CHECK(submitted.at("run").get<std::string>().ends_with("-1"));
}

TEST_CASE("a run is found by the beginning of its id where only one has it") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    std::vector<std::string> ids;
    for (int i = 0; i < 12; ++i)
        ids.push_back(head.call("POST", "/v1/runs", {{"job", job("run" + std::to_string(i))}}).body.at("run_id"));
    const std::string common = ids[0].substr(0, ids[0].rfind('-') + 1);
    REQUIRE(ids[0] == common + "1");
    head.call("POST", "/v1/runs/run0/stop");
    REQUIRE(eventually([&] { return state_of(head, "run0") == "STOPPED"; }));
    REQUIRE(head.call("DELETE", "/v1/runs/run0").status == 200);
    const auto message_of = [&](const std::string& text) {
        return head.call("GET", "/v1/runs/" + text).body.value("message", std::string());
    };
    CHECK(message_of(common + "1").find("is the beginning of 3 run ids") != std::string::npos);  // 10, 11, 12
    CHECK(message_of(common.substr(0, 3)).find("is the beginning of 11 run ids") != std::string::npos);
    CHECK(message_of(common + "13").find("there is no run") != std::string::npos);
    CHECK(message_of(common + "01").find("there is no run") != std::string::npos);
    for (int i = 1; i <= 2; ++i) {
        const std::string name = "run" + std::to_string(9 + i);
        head.call("POST", "/v1/runs/" + name + "/stop");
        REQUIRE(eventually([&] { return state_of(head, name) == "STOPPED"; }));
        REQUIRE(head.call("DELETE", "/v1/runs/" + name).status == 200);
    }
    CHECK(head.call("GET", "/v1/runs/" + common + "1").body.at("name") == "run9");
}

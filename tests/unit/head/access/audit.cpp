// The audit: chained rows with the change, its caller and its origin, without secrets.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/descriptor.hpp"
#include "base/json_text.hpp"
#include "storage/state/journal.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

std::vector<json> rows_of(const HeadUnderTest& head) {
    const Answer answer = head.call("GET", "/v1/audit?limit=1000");
    REQUIRE(answer.status == 200);
    return answer.body["items"].get<std::vector<json>>();
}

std::vector<json> rows_of(const HeadUnderTest& head, const std::string& action) {
    std::vector<json> rows = rows_of(head);
    std::erase_if(rows, [&](const json& row) { return row["action"] != action; });
    return rows;
}

}  // namespace

TEST_CASE("each change that somebody asked for has one row: who, with which token, from where, and which run") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const std::string ann = head.make_token("user", "ann"), secret = "a-secret-of-the-job";
    const Answer submitted =
        head.call_as(ann, "POST", "/v1/runs", {{"job", job("mine")}, {"secrets", {{"KEY", secret}}}});
    REQUIRE(submitted.status == 201);
    CHECK(head.call_as(ann, "POST", "/v1/runs", {{"job", job("mine")}}).status == 409);  // changes nothing
    CHECK(head.call_as(ann, "POST", "/v1/nodes/n1/drain").status == 403);
    CHECK(head.call_as(ann, "GET", "/v1/runs").status == 200);
    CHECK(head.call_as(ann, "POST", "/v1/runs/mine/stop").status < 300);
    CHECK(head.call_as(ann, "DELETE", "/v1/runs/mine?dry_run=true").status == 200);
    CHECK(head.call_as(ann, "DELETE", "/v1/runs/mine").status == 200);

    const auto made = rows_of(head, "POST /v1/tokens");
    REQUIRE(made.size() == 1);
    CHECK(made[0]["user"] == "admin");
    CHECK(made[0]["role"] == "admin");
    CHECK(made[0]["from"].get<std::string>().starts_with("127.0.0.1:"));
    const std::string run = submitted.body["run_id"];
    for (const char* action : {"POST /v1/runs", "POST /v1/runs/{run}/stop", "DELETE /v1/runs/{run}"}) {
        const auto rows = rows_of(head, action);
        INFO(action);
        REQUIRE(rows.size() == 1);
        CHECK(rows[0]["user"] == "ann");
        CHECK(made[0]["target"].get<std::string>().find("id=" + rows[0]["credential"].get<std::string>()) !=
              std::string::npos);
        CHECK(rows[0]["run"] == run);
    }
    CHECK(rows_of(head).size() == 5);
    const auto first = rows_of(head, "rtrain head start");  // the admin token that it made
    REQUIRE(first.size() == 1);
    CHECK(first[0]["user"] == "");
    const std::string first_id = made[0]["credential"];
    CHECK(first[0]["target"] == "id=" + first_id + " role=admin user=admin");
    const std::string text = head.call("GET", "/v1/audit").text;
    CHECK(text.find(secret) == std::string::npos);
    CHECK(text.find(ann) == std::string::npos);
    CHECK(head.call_as(ann, "GET", "/v1/audit").status == 403);
}

TEST_CASE("nodes that join, files that people write and a stop of the head are in the audit; agents' own work is not") {
    const TemporaryFolder folder;
    std::string admin;
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        const net::Endpoint node = join(head, "n1");
        const auto join_rows = rows_of(head, "POST /v1/join");
        REQUIRE(join_rows.size() == 1);
        CHECK(join_rows[0]["target"].get<std::string>().find("node=n1") != std::string::npos);
        CHECK_FALSE(join_rows[0]["credential"].get<std::string>().empty());
        HandMadeAgent agent(node, "n1");
        agent.register_node();
        REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/n1").status == 200; }));
        REQUIRE(head.call("POST", "/v1/runs", {{"job", job("busy")}}).status == 201);
        start_attempt(agent, 1);
        CHECK(HeadUnderTest::send(node, {.method = "PUT", .target = "/v1/storage/busy/x", .body = "x"}).status == 201);
        CHECK(rows_of(head, "PUT /v1/storage/{path...}").empty());
        const net::Endpoint person = head.endpoint(head.admin);
        CHECK(HeadUnderTest::send(person, {.method = "PUT", .target = "/v1/storage/y", .body = "y"}).status == 201);
        CHECK(HeadUnderTest::send(person, {.method = "PUT", .target = "/v1/storage/../y", .body = "y"}).status == 400);
        CHECK(rows_of(head, "PUT /v1/storage/{path...}").size() == 1);
        CHECK(head.call("POST", "/v1/nodes/n1/drain").status == 200);
        CHECK(head.call("POST", "/v1/nodes/n1/leave").status == 200);
        CHECK(rows_of(head, "POST /v1/nodes/{node}/drain").size() == 1);
        CHECK(rows_of(head, "POST /v1/nodes/{node}/leave").size() == 1);
    }
    HeadUnderTest head({.data_dir = folder.path});
    head.admin = admin;
    CHECK(rows_of(head, "POST /v1/head/stop").size() == 1);
    state::AuditEnd end;
    const auto kept = state::SqliteJournal::audit_of(folder.path, 0, 1'000);
    REQUIRE(kept);
    for (const state::AuditRow& row : *kept) CHECK(state::follow(end, row).ok());
    CHECK(end.sequence == rows_of(head).size());
    CHECK(end.hash == rows_of(head).back()["hash"].get<std::string>());
}

TEST_CASE("the head's log tells each hour where the audit ends, so that a cut end shows") {
    CHECK(HeadOptions{}.audit_end_ms == 3'600'000);
    const TemporaryFolder folder;
    const std::string log = folder.path + "/log";
    const int before = ::dup(STDERR_FILENO);
    {
        const storage::Descriptor file(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
        REQUIRE(::dup2(file.number(), STDERR_FILENO) == STDERR_FILENO);
    }
    bool end_in_feed = false, end_in_next_feed = false;
    {
        HeadUnderTest head({.data_dir = folder.path + "/data", .audit_end_ms = 20});
        const auto feed_ends = [&] {
            const json last = rows_of(head).back();
            const std::string line =
                "the audit ends at " + json_text(last["sequence"]) + ":" + last["hash"].get<std::string>();
            return eventually([&] {
                std::ifstream in(log);
                const std::string text{std::istreambuf_iterator<char>(in), {}};
                return text.find(line + "\n") != std::string::npos;
            });
        };
        end_in_feed = feed_ends();
        head.make_token("user", "ann");
        end_in_next_feed = feed_ends();
    }
    ::dup2(before, STDERR_FILENO);
    ::close(before);
    CHECK(end_in_feed);
    CHECK(end_in_next_feed);
}

TEST_CASE("dry_run keeps no change out of the audit, but where the route knows it") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const std::string ann = head.make_token("user", "ann"), code = "code", sha256 = security::sha256_hex(code);
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/n1").status == 200; }));
    const std::size_t before = rows_of(head).size();
    CHECK(head.call_as(ann, "POST", "/v1/runs?dry_run=1", {{"job", job("mine", 20)}}).status == 201);
    CHECK(head.call_as(ann, "POST", "/v1/runs/mine/stop?dry_run=1").status < 300);
    const json wish = {{"role", "admin"}, {"user", "eve"}};
    const Answer token = head.call("POST", "/v1/tokens?dry_run=1", wish);
    CHECK(token.status == 201);
    CHECK(head.call("DELETE", "/v1/tokens/" + token.body["id"].get<std::string>() + "?dry_run").status == 200);
    CHECK(head.call("POST", "/v1/nodes/n1/drain?dry_run=1").status == 200);
    CHECK(head.call("POST", "/v1/nodes/n1/undrain?dry_run=1").status == 200);
    CHECK(head.call("POST", "/v1/nodes/n1/leave?dry_run=1").status == 200);
    const net::Endpoint admin = head.endpoint(head.admin);
    const auto put = [&](const std::string& target) {
        return HeadUnderTest::send(admin, {.method = "PUT", .target = target, .body = code}).status;
    };
    CHECK(put("/v1/blobs/" + sha256 + "?dry_run=1") == 201);
    CHECK(put("/v1/storage/x?dry_run=1") == 201);
    CHECK(head.call("DELETE", "/v1/storage/x?dry_run=1").status < 300);
    CHECK(rows_of(head).size() == before + 10);
    CHECK(head.call_as(ann, "DELETE", "/v1/runs/mine?dry_run=1").status == 200);
    CHECK(rows_of(head).size() == before + 10);
}

TEST_CASE("a submission's row names its run whatever is saved beside it, and there is none for what changed nothing") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const std::string ann = head.make_token("user", "ann"), code = "code", sha256 = security::sha256_hex(code);
    REQUIRE(HeadUnderTest::send(head.endpoint(ann), {.method = "PUT", .target = "/v1/blobs/" + sha256, .body = code})
                .status == 201);
    const json whole = {
        {"job", job("mine")}, {"code_sha256", sha256}, {"key", "k"}, {"lines", {{"at", {{"name", 1}}}}}};
    const Answer submitted = head.call_as(ann, "POST", "/v1/runs?x=a%20name%3Dother", whole);
    REQUIRE(submitted.status == 201);
    json unfit = whole;
    unfit["key"] = "another";
    unfit["job"] = job("unfit");
    unfit["job"]["scaling"]["queue"] = "of-nobody";
    const Answer refused = head.call_as(ann, "POST", "/v1/runs", unfit);
    INFO(refused.text);
    CHECK(refused.status >= 400);
    CHECK(head.call_as(ann, "POST", "/v1/runs", whole).status == 200);  // its key made a run before

    const auto rows = rows_of(head, "POST /v1/runs");
    REQUIRE(rows.size() == 1);
    CHECK(rows[0]["run"] == submitted.body["run_id"]);
    CHECK(rows[0]["target"] == "/v1/runs?x=a%20name=other name=mine");
    CHECK(head.call_as(ann, "POST", "/v1/runs/mine/stop").status < 300);
    REQUIRE(eventually([&] { return state_of(head, "mine") == "STOPPED"; }));
    CHECK(head.call_as(ann, "POST", "/v1/runs/mine/stop").status == 200);
    CHECK(rows_of(head, "POST /v1/runs/{run}/stop").size() == 1);
}

TEST_CASE("values of a run's own user fill no audit; those that somebody else leaves are in it") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const std::string ann = head.make_token("user", "ann");
    REQUIRE(head.call_as(ann, "POST", "/v1/runs", {{"job", job("mine", 20)}}).status == 201);
    const std::size_t before = rows_of(head).size();
    CHECK(head.call_as(ann, "PUT", "/v1/runs/mine/values/k", {{"a", 1}}).status == 200);
    CHECK(rows_of(head).size() == before);
    CHECK(head.call("PUT", "/v1/runs/mine/values/k", {{"a", 2}}).status == 200);
    CHECK(rows_of(head).size() == before + 1);
}

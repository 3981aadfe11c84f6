// A stranger on every route; roles; join tokens; blobs and storage over HTTPS; streams.
#include "daemon/head/routes/routes.hpp"

#include <atomic>
#include <fstream>
#include <set>
#include <sstream>

#include "base/json_text.hpp"
#include "daemon/head/openapi/openapi.hpp"
#include "tests/unit/head_agent.hpp"
#include "tests/unit/source_directory.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

std::string concrete(std::string pattern) {
    for (std::size_t at; (at = pattern.find('{')) != std::string::npos;)
        pattern.replace(at, pattern.find('}', at) - at + 1, "x");
    return pattern;
}

Answer put(const net::Endpoint& to, const std::string& target, const std::string& bytes,
           const std::map<std::string, std::string>& headers = {}) {
    return HeadUnderTest::send(to, {.method = "PUT", .target = target, .body = bytes, .headers = headers});
}

}  // namespace

TEST_CASE("a stranger gets nothing but /healthz and the empty page, on no route and with no method") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    for (const head::Route& route : head::routes()) {
        if (std::string(route.method) == "HEAD") continue;  // no body to read an error from
        const Answer answer = head.call_as("", route.method, concrete(route.pattern));
        INFO(route.method << " " << route.pattern);
        if (std::string(route.pattern) == "/healthz")
            CHECK(answer.status == 200);
        else if (route.access == head::Access::browser && std::string(route.method) == "GET")
            CHECK(answer.status < 500);  // the same files for all callers; without gzip they are refused
        else if (std::string(route.method) == "POST" &&
                 (std::string(route.pattern) == "/v1/join" || std::string(route.pattern) == "/v1/session"))
            CHECK(answer.status == 400);
        else
            CHECK(answer.status == 401);
    }
    CHECK(head.call_as("", "GET", "/v1/nothing").status == 401);
    CHECK(head.call_as("rtu1.abcdef.0123456789", "GET", "/v1/runs").status == 401);
    CHECK(head.call("GET", "/v1/nothing").status == 404);
    CHECK(head.call("PATCH", "/v1/runs").status == 400);
}

TEST_CASE("roles: a viewer reads, a user submits and stops his own runs, an admin does all") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const std::string viewer = head.make_token("viewer", "vic"), ann = head.make_token("user", "ann"),
                      bob = head.make_token("user", "bob");
    CHECK(head.call_as(viewer, "GET", "/v1/runs").status == 200);
    CHECK(head.call_as(viewer, "POST", "/v1/runs", {{"job", job("a")}}).status == 403);
    CHECK(head.call_as(ann, "POST", "/v1/runs", {{"job", job("a")}}).body["user"] == "ann");
    CHECK(head.call_as(bob, "POST", "/v1/runs/a/stop").status == 403);
    CHECK(head.call_as(bob, "DELETE", "/v1/runs/nothing").status == 404);
    CHECK(head.call_as(viewer, "DELETE", "/v1/runs/nothing").status == 403);
    CHECK(head.call_as(bob, "POST", "/v1/nodes/n1/drain").status == 403);
    CHECK(head.call_as(ann, "POST", "/v1/runs/a/stop").status == 202);
    CHECK(head.call_as(ann, "GET", "/v1/tokens").status == 403);
    const json tokens = head.call("GET", "/v1/tokens").body["items"];
    CHECK(json_text(tokens).find("secret") == std::string::npos);
    for (const json& one : tokens)
        if (one["user"] == "bob")
            CHECK(head.call("DELETE", "/v1/tokens/" + one["id"].get<std::string>()).body["revoked"] == true);
    CHECK(head.call_as(bob, "GET", "/v1/runs").body["message"].get<std::string>().find("was revoked") !=
          std::string::npos);
}

TEST_CASE("a join token lets one node in, once, and only under the name it asked for") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const auto request = security::make_request("whatever").value();
    const auto join_with = [&](const std::string& token, const std::string& node) {
        return head.call_as("", "POST", "/v1/join", {{"token", token}, {"node", node}, {"request", request.request}});
    };
    CHECK(join_with(head.started.join_token, "../n1").status == 400);
    const Answer answer = join_with(head.started.join_token, "n1");
    REQUIRE(answer.status == 200);
    CHECK(answer.body["ca"] == head.started.ca);
    CHECK(join_with(head.started.join_token, "n2").body["message"].get<std::string>().find("used already") !=
          std::string::npos);
    CHECK(join_with(head.admin, "n2").status == 403);
    CHECK(head.call_as(head.started.join_token, "GET", "/v1/runs").status == 401);  // used up
    CHECK(head.call_as(head.make_token("node", ""), "GET", "/v1/runs").status == 403);

    net::Endpoint node = head.endpoint("");
    node.certificate = answer.body["certificate"];
    node.private_key = request.private_key;
    CHECK(HeadUnderTest::send(node, {.target = "/v1/runs"}).status == 403);
    const std::string body = json_text(json({{"request", security::make_request("n1").value().request}}));
    CHECK(HeadUnderTest::send(node, {.method = "POST", .target = "/v1/certificate", .body = body}).body["node"] ==
          "n1");
}

TEST_CASE("a join token with several uses lets so many nodes in, at once too, and not one more") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const Answer made = head.call("POST", "/v1/tokens", {{"role", "node"}, {"uses", 3}});
    REQUIRE(made.status == 201);
    CHECK(made.body["uses_left"] == 3);
    const std::string request = security::make_request("any").value().request;
    std::atomic<int> came_in = 0, refused = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 5; ++i)
        threads.emplace_back([&, i] {
            const json body{{"token", made.body["token"]}, {"node", "n" + std::to_string(i)}, {"request", request}};
            net::Client client(head.endpoint(""));  // without Catch's assertions, which are for one thread
            const auto answer = client.call({.method = "POST", .target = "/v1/join", .body = json_text(body)});
            ++(answer && answer->status == 200 ? came_in : refused);
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(came_in == 3);
    CHECK(refused == 2);
    for (const json& uses : {json(0), json(-1), json("many"), json(100'001)})
        CHECK(head.call("POST", "/v1/tokens", {{"role", "node"}, {"uses", uses}}).status == 400);
    CHECK(head.call("POST", "/v1/tokens", {{"role", "user"}, {"user", "ann"}, {"uses", 2}}).status == 400);
}

TEST_CASE("a blob is stored under its hash alone") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint admin = head.endpoint(head.admin);
    const std::string bytes(200'000, 'x'), hash = security::sha256_hex(bytes);
    CHECK(put(admin, "/v1/blobs/" + hash, "something else").status == 422);
    CHECK(HeadUnderTest::send(admin, {.method = "HEAD", .target = "/v1/blobs/" + hash}).status == 404);
    CHECK(put(admin, "/v1/blobs/" + hash, bytes).status == 201);
    CHECK(HeadUnderTest::send(admin, {.method = "HEAD", .target = "/v1/blobs/" + hash}).status == 200);
    CHECK(HeadUnderTest::send(admin, {.target = "/v1/blobs/" + hash}).text == bytes);
    CHECK(put(admin, "/v1/blobs/..%2Fca.key", bytes).status >= 400);
    CHECK(std::filesystem::is_empty(folder.path + "/tmp"));
}

TEST_CASE("cluster storage: exclusive creation, appending, uploads in pieces, listing, removal") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint admin = head.endpoint(head.admin);
    const auto get = [&](const std::string& target) {
        return HeadUnderTest::send(admin, {.target = "/v1/storage/" + target});
    };
    const std::string base = "/v1/storage/run/";

    CHECK(put(admin, base + "run.json", "{}", {{"if-none-match", "*"}}).status == 201);
    CHECK(put(admin, base + "run.json", "[]", {{"if-none-match", "*"}}).status == 412);
    CHECK(get("run/run.json").text == "{}");
    CHECK(put(admin, base + "log?append=1", "one ").status == 200);
    CHECK(put(admin, base + "log?append=1", "two").status == 200);
    CHECK(get("run/log").text == "one two");

    CHECK(put(admin, base + "big?upload=u1&offset=0&total=10", "01234").status == 200);
    CHECK(get("run/big").status == 404);  // incomplete, so it does not exist
    CHECK(get("run/big?upload=u1").body["bytes"] == 5);
    CHECK(put(admin, base + "big?upload=u1&offset=0&total=10", "01234").status == 409);
    CHECK(put(admin, base + "big?upload=u1&offset=5&total=10", "56789").status == 200);
    CHECK(get("run/big").text == "0123456789");

    CHECK(get("run?list=1").body["items"].size() == 3);
    for (const char* path : {"../ca.key", "run/../../ca.key", ".uploads/x", ""}) {
        INFO(path);
        CHECK(put(admin, std::string("/v1/storage/") + path, "x").status == 400);
    }
    CHECK(HeadUnderTest::send(admin, {.method = "DELETE", .target = base + "log"}).status == 200);
    CHECK(HeadUnderTest::send(admin, {.method = "DELETE", .target = "/v1/storage/run?tree=1"}).status == 200);
    CHECK(get("run?list=1").body["items"].empty());
    CHECK(std::filesystem::is_empty(folder.path + "/storage/.uploads"));
}

TEST_CASE(
    "an upload whose file could not be put in its place is not done, until a piece without bytes has it put there") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint admin = head.endpoint(head.admin);
    const std::string target = "/v1/storage/run/sub/model?upload=u1";
    const auto present = [&] { return HeadUnderTest::send(admin, {.target = target}).body; };
    const std::string blocker = folder.path + "/storage/run";
    std::ofstream(blocker) << "a file where a directory should be";

    CHECK(put(admin, target + "&offset=0&total=10", "01234").status == 200);
    CHECK(put(admin, target + "&offset=5&total=10", "56789").status >= 500);
    CHECK(present()["bytes"] == 10);
    CHECK(present()["done"] == false);
    std::filesystem::remove(blocker);
    CHECK(put(admin, target + "&offset=10&total=10", "").status == 200);
    CHECK(present()["done"] == true);
    CHECK(HeadUnderTest::send(admin, {.target = "/v1/storage/run/sub/model"}).text == "0123456789");
}

TEST_CASE("one piece that comes several times at once is taken once") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint admin = head.endpoint(head.admin);
    const std::string piece(4 << 20, 'x');
    for (int round = 0; round < 8; ++round) {
        const std::string target = "/v1/storage/run/f" + std::to_string(round) + "?upload=u";
        std::vector<std::future<int>> answers;
        for (int i = 0; i < 4; ++i)
            answers.push_back(std::async(std::launch::async, [&] {
                net::Client client(admin);
                const auto answer =
                    client.call({.method = "PUT", .target = target + "&offset=0&total=99999999", .body = piece});
                return answer ? answer->status : 0;
            }));
        int taken = 0;
        for (auto& answer : answers) {
            const int status = answer.get();
            taken += status == 200;
            CHECK((status == 200 || status == 409));
        }
        CHECK(taken == 1);
        CHECK(HeadUnderTest::send(admin, {.target = target}).body["bytes"] == piece.size());
    }
}

TEST_CASE("what cut-off uploads left is removed at the next start, but not what may still go on") {
    const TemporaryFolder folder;
    namespace fs = std::filesystem;
    const fs::path uploads = folder.path + "/storage/.uploads";
    fs::create_directories(uploads);
    for (const char* name : {"old.part", "fresh.part", "fresh.whole"}) std::ofstream(uploads / name) << "bytes";
    fs::last_write_time(uploads / "old.part", fs::file_time_type::clock::now() - std::chrono::hours(2));
    HeadUnderTest head({.data_dir = folder.path});
    CHECK(eventually([&] { return !fs::exists(uploads / "old.part") && !fs::exists(uploads / "fresh.whole"); }));
    CHECK(fs::exists(uploads / "fresh.part"));

    const net::Endpoint admin = head.endpoint(head.admin);  // refused after its body has arrived: nothing of it stays
    CHECK(put(admin, "/v1/storage/run/x?upload=u&offset=none&total=3", "abc").status == 400);
    CHECK(eventually([&] { return std::distance(fs::directory_iterator(uploads), fs::directory_iterator()) == 1; }));
}

TEST_CASE("followed events come as they happen, with ids to go on from; followed logs end with the run") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("watched")}}).status == 201);
    std::string events, logs;
    net::Client events_client(head.endpoint(head.admin)), logs_client(head.endpoint(head.admin));
    std::thread events_reader([&] {
        (void)events_client.call({.target = "/v1/events?follow=true", .on_piece = [&](std::string_view piece) {
                                      events += piece;
                                      return events.find("STOPPED") == std::string::npos;
                                  }});
    });
    std::thread logs_reader([&] {
        (void)logs_client.call({.target = "/v1/runs/watched/logs?follow=true", .on_piece = [&](std::string_view piece) {
                                    logs += piece;
                                    return logs.find("event: end") == std::string::npos;
                                }});
    });
    head.call("POST", "/v1/runs/watched/stop");
    events_reader.join();
    logs_reader.join();
    CHECK(events.find("id: ") != std::string::npos);
    CHECK(events.find("was submitted by admin") != std::string::npos);
    CHECK(logs.find("\"state\":\"STOPPED\"") != std::string::npos);
}

TEST_CASE("/metrics speaks Prometheus, and counts requests by route, never by path") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("counted")}}).status == 201);
    head.call("GET", "/v1/runs/counted");
    const std::string text = head.call("GET", "/metrics").text;
    CHECK(text.find("# TYPE rtrain_runs gauge") != std::string::npos);
    CHECK(text.find("rtrain_runs{state=\"QUEUED\"} 1") != std::string::npos);
    CHECK(text.find("/v1/runs/{run}") != std::string::npos);
    CHECK(text.find("/v1/runs/counted") == std::string::npos);
}

TEST_CASE("two heads on one data directory: the second refuses, and says so") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const Status second = serve_head({.data_dir = folder.path, .port = 0}, [](const HeadListening&) {});
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == ErrorCode::conflict);
}

TEST_CASE("the page for machines describes exactly the routes there are, and the repository holds its copy") {
    const json page = parse_json(head::openapi());
    std::set<std::string> described, routed;
    for (const auto& [path, methods] : page["paths"].items())
        for (const auto& [method, operation] : methods.items()) {
            described.insert(method + " " + path);
            CHECK_FALSE(operation["summary"].get<std::string>().empty());
        }
    for (const head::Route& route : head::routes()) {
        std::string path = route.pattern, method = route.method;
        if (const auto dots = path.find("..."); dots != std::string::npos) path.erase(dots, 3);
        for (char& c : method) c = static_cast<char>(std::tolower(c));
        routed.insert(method + " " + path);
    }
    CHECK(described == routed);
    std::ifstream file(test::source_directory() + "/configs/openapi.json");
    std::ostringstream copy;
    copy << file.rdbuf();
    const bool same = copy.str() == head::openapi();  // GET /openapi.json of a head returns the new text
    CHECK(same);
}

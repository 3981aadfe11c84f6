// Every route with every credential. The cells are made from the head's table of routes. The expected answers are
// listed here again, independently: a route without an entry fails the test.
#include <iostream>
#include <map>
#include <set>

#include "daemon/head/routes/routes.hpp"
#include "tests/unit/browser.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

// The callers that may use a route: V a viewer, O the run's user, R the token of her live run, U another user, A an
// admin, N a node with an attempt of the run, M another node, J a join token, P Prometheus' token. A small letter is
// accepted, but gets 404. Any other known caller gets 403.
// "*": all callers, also without a credential.
const std::map<std::string, std::string> expected = {
    {"GET /healthz", "*"},
    {"POST /v1/join", "*"},
    {"GET /", "*"},
    {"GET /favicon.svg", "*"},
    {"GET /assets/{file}", "*"},
    {"POST /v1/session", "*"},
    {"GET /v1/session", "VORUA"},
    {"DELETE /v1/session", "vorua"},
    {"GET /v1/status", "VORUA"},
    {"POST /v1/runs", "ORUA"},
    {"GET /v1/runs", "VORUA"},
    {"GET /v1/runs/{run}", "VORUA"},
    {"DELETE /v1/runs/{run}", "ORA"},
    {"POST /v1/runs/{run}/stop", "ORA"},
    {"POST /v1/runs/{run}/checkpoint", "ORA"},
    {"POST /v1/runs/{run}/resize", "ORA"},
    {"POST /v1/runs/{run}/priority", "ORA"},
    {"POST /v1/runs/{run}/yields", "ORA"},
    {"POST /v1/runs/{run}/restore", "ORA"},
    {"POST /v1/runs/{run}/stack", "ORA"},
    {"GET /v1/runs/{run}/attempts", "VORUA"},
    {"GET /v1/runs/{run}/logs", "ORA"},
    {"GET /v1/runs/{run}/metrics", "VORUA"},
    {"GET /v1/runs/{run}/metrics/history", "VORUA"},
    {"GET /v1/runs/{run}/ranks/history", "VORUA"},
    {"GET /v1/runs/{run}/ranks/{rank}/history", "VORUA"},
    {"GET /v1/runs/{run}/checkpoints", "ORA"},
    {"POST /v1/runs/{run}/checkpoints/verified", "ORA"},
    {"POST /v1/runs/{run}/checkpoints/verify", "ORA"},
    {"GET /v1/runs/{run}/ranks", "VORUA"},
    {"GET /v1/runs/{run}/explain", "VORUA"},
    {"GET /v1/runs/{run}/files/{path...}", "ORA"},
    {"GET /v1/runs/{run}/values", "ORA"},
    {"GET /v1/runs/{run}/values/{key}", "ORA"},
    {"PUT /v1/runs/{run}/values/{key}", "ORA"},
    {"GET /v1/nodes", "VORUA"},
    {"GET /v1/nodes/{node}", "VORUA"},
    {"GET /v1/nodes/{node}/history", "VORUA"},
    {"POST /v1/nodes/{node}/drain", "A"},
    {"POST /v1/nodes/{node}/quarantine", "A"},
    {"POST /v1/nodes/{node}/undrain", "A"},
    {"POST /v1/nodes/{node}/leave", "A"},
    {"GET /v1/demand", "VORUA"},
    {"GET /v1/queue", "VORUA"},
    {"GET /v1/queues", "VORUA"},
    {"PUT /v1/queues", "A"},
    {"PUT /v1/queues/{queue}", "A"},
    {"DELETE /v1/queues/{queue}", "a"},
    {"GET /v1/report", "VORUA"},
    {"GET /v1/status/history", "VORUA"},
    {"GET /v1/timeline", "VORUA"},
    {"GET /v1/events", "VORUA"},
    {"POST /v1/plan", "VORUA"},
    {"GET /v1/tokens", "A"},
    {"POST /v1/tokens", "A"},
    {"DELETE /v1/tokens/{id}", "A"},
    {"GET /v1/audit", "A"},
    {"GET /v1/quotas/{user}", "A"},
    {"PUT /v1/quotas/{user}", "A"},
    {"HEAD /v1/blobs/{sha256}", "ORuANm"},
    {"GET /v1/blobs/{sha256}", "ORuAN"},
    {"PUT /v1/blobs/{sha256}", "ORUA"},
    {"POST /v1/certificate", "NM"},
    {"POST /v1/head/backup", "A"},
    {"POST /v1/head/stop", "A"},
    {"GET /v1/storage/{path...}", "ORAN"},
    {"PUT /v1/storage/{path...}", "AN"},
    {"DELETE /v1/storage/{path...}", "AN"},
    {"GET /v1/agents", "NM"},
    {"GET /metrics", "PVORUA"},
    {"GET /openapi.json", "VORUA"},
};

struct Credential {
    std::string what;
    char letter;  // ' ': not valid
    net::Endpoint endpoint;
    std::map<std::string, std::string> headers = {};
};

// A run of ann on n1 with her code. Also another node, another user, and invalid credentials.
struct Cast {
    TemporaryFolder folder;
    HeadUnderTest head{{.data_dir = folder.path}};
    std::string ann = head.make_token("user", "ann");
    net::Endpoint n1 = join(head, "n1"), n2 = join(head, "n2"), gone = join(head, "gone");
    HandMadeAgent agent{n1, "n1"};
    std::string code = std::string(1000, 'c'), sha256 = security::sha256_hex(code), live_token, ended_token;
    std::vector<Credential> credentials;

    Cast() {
        agent.register_node();
        REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/n1").status == 200; }));
        REQUIRE(
            HeadUnderTest::send(head.endpoint(ann), {.method = "PUT", .target = "/v1/blobs/" + sha256, .body = code})
                .status == 201);
        ended_token = token_of_run("before");
        end_well(agent, attempt_, 1);
        REQUIRE(eventually([&] { return state_of(head, "before") == "SUCCEEDED"; }));
        live_token = token_of_run("run");
        {
            HandMadeAgent leaves(gone, "gone");
            leaves.register_node();
            REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/gone").status == 200; }));
            REQUIRE(head.call("POST", "/v1/nodes/gone/leave").status == 200);
        }
        const auto bearer = [&](const char* what, char letter, const std::string& token) {
            credentials.push_back({what, letter, head.endpoint(token)});
        };
        bearer("nothing", ' ', "");
        bearer("garbage", ' ', "rtu1.0000.1111");
        bearer("an expired token", ' ', expired());
        bearer("a revoked token", ' ', revoked());
        bearer("a join token", 'J', head.make_token("node", ""));
        bearer("the token of a run that has ended", ' ', ended_token);
        credentials.push_back({"the certificate of a node that left", ' ', gone});
        bearer("a token of the role metrics", 'P', head.make_token("metrics", ""));
        bearer("a viewer", 'V', head.make_token("viewer", "vic"));
        bearer("the run's user", 'O', ann);
        bearer("the run's token", 'R', live_token);
        bearer("another user", 'U', head.make_token("user", "bob"));
        bearer("an admin", 'A', head.admin);
        session("a session of the run's user", 'O', ann);
        session("a session of a viewer", 'V', head.make_token("viewer", "vera"));
        session("a session of an admin", 'A', head.admin);
        session("a session that was signed out", ' ', head.make_token("admin", "olga"));
        credentials.push_back({"a node of the run", 'N', n1});
        credentials.push_back({"another node", 'M', n2});
    }

    void session(const char* what, char letter, const std::string& token) {
        const Browser browser(head, token);
        if (letter == ' ') REQUIRE(browser.call("DELETE", "/v1/session").status == 200);
        credentials.push_back({what, letter, head.endpoint(""), browser.headers()});
    }

    // Submits the run as ann and starts it on n1.
    std::string token_of_run(const std::string& name) {
        REQUIRE(head.call_as(ann, "POST", "/v1/runs", {{"job", job(name)}, {"code_sha256", sha256}}).status == 201);
        const auto prepare = agent.expect<protocol::Prepare>();
        agent.tell(protocol::Prepared{
            .attempt = prepare.attempt, .claimed = true, .master_address = "127.0.0.1", .master_port = 20'000});
        const auto launch = agent.expect<protocol::Launch>();
        attempt_ = launch.attempt;
        agent.tell(protocol::Started{.attempt = attempt_, .rank = 0, .pid = 100, .host = "here"});
        return launch.token;
    }
    std::string expired() const {
        const json body{{"role", "admin"}, {"user", "eve"}, {"expires_ms", 1}};
        const std::string token = head.call("POST", "/v1/tokens", body).body.at("token");
        REQUIRE(eventually([&] { return head.call_as(token, "GET", "/v1/status").status == 401; }));
        return token;
    }
    std::string revoked() const {
        const json made = head.call("POST", "/v1/tokens", {{"role", "admin"}, {"user", "mal"}}).body;
        REQUIRE(head.call("DELETE", "/v1/tokens/" + made.at("id").get<std::string>()).status == 200);
        return made.at("token");
    }

  private:
    protocol::AttemptRef attempt_;
};

// Returns the route with existing names: ann's run, her code. Nodes and tokens have names that do not exist, so that an
// admin's cells change nothing.
std::string concrete(std::string pattern, const std::string& sha256) {
    const std::map<std::string, std::string> values = {{"{run}", "run"}, {"{path...}", "run/x"}, {"{sha256}", sha256},
                                                       {"{key}", "k"},   {"{node}", "nowhere"},  {"{id}", "none"},
                                                       {"{rank}", "0"}};
    for (const auto& [name, value] : values)
        if (const auto at = pattern.find(name); at != std::string::npos) pattern.replace(at, name.size(), value);
    return pattern;
}

// Returns a body that no route can process, except a blob's own content, so that accepted requests change nothing.
std::string body_for(const std::string& method, const std::string& pattern, const std::string& code) {
    if (method == "PUT") return pattern.find("blobs") != std::string::npos ? code : "x";
    return method == "POST" ? "[" : "";
}

std::string wanted(const std::string& who, char letter) {
    if (who == "*") return "let in";
    if (letter == ' ') return "401";
    if (who.find(letter) != std::string::npos) return "let in";
    return who.find(static_cast<char>(std::tolower(letter))) != std::string::npos ? "404" : "403";
}

std::string outcome(int status, const std::string& wish) {
    if (wish == "let in" && status != 401 && status != 403 && status < 500) return wish;
    return std::to_string(status);
}

}  // namespace

TEST_CASE("every route answers every credential as the table of this test says") {
    Cast cast;
    std::set<std::string> routed;
    int cells = 0;
    for (const head::Route& route : head::routes()) {
        const std::string method = route.method, pattern = route.pattern, name = method + " " + pattern;
        INFO(name);
        REQUIRE(expected.contains(name));
        routed.insert(name);
        for (const Credential& credential : cast.credentials) {
            const std::string wish = wanted(expected.at(name), credential.letter);
            if (name == "POST /v1/head/stop" && wish == "let in") continue;  // the end of this test sends it
            const bool signs_out = name == "DELETE /v1/session" && !credential.headers.empty();
            if (signs_out && wish != "401") continue;  // other routes still need the session
            const Answer answer =
                HeadUnderTest::send(credential.endpoint, {.method = method,
                                                          .target = concrete(pattern, cast.sha256),
                                                          .body = body_for(method, pattern, cast.code),
                                                          .headers = credential.headers});
            INFO(credential.what << ": " << answer.status << " " << answer.text.substr(0, 200));
            CHECK(outcome(answer.status, wish) == wish);
            ++cells;
        }
    }
    CHECK(state_of(cast.head, "run") == "RUNNING");
    std::cout << "route x credential: " << cells << " cells, " << routed.size() << " routes, "
              << cast.credentials.size() << " credentials\n";
    CHECK(cells >= 500);
}

TEST_CASE(
    "a browser that was lured has nothing to send: no cookie, no origin and no host opens a route or is answered for") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const std::map<std::string, std::string> rebound = {
        {"host", "attacker.example"},
        {"origin", "https://attacker.example"},
        {"cookie", "token=" + head.admin + "; authorization=Bearer " + head.admin}};
    for (const head::Route& route : head::routes()) {
        const std::string name = std::string(route.method) + " " + route.pattern;
        INFO(name);
        for (const char* method : {route.method, "OPTIONS"}) {
            net::Client client(head.endpoint(""));
            const auto answer =
                client.call({.method = method,
                             .target = concrete(route.pattern, std::string(64, '0')) + "?token=" + head.admin,
                             .body = "",
                             .headers = rebound});
            REQUIRE(answer.ok());
            if (method != route.method || expected.at(name) != "*") CHECK(answer->status == 401);
            for (const auto& [header, value] : answer->headers) {
                CHECK_FALSE(header.starts_with("access-control-"));
                CHECK(header != "set-cookie");
            }
        }
    }
}

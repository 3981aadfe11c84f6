// Signing a browser in and out on a real head. A forged request cannot use a session.
#include "base/json_text.hpp"
#include "daemon/head/routes/routes.hpp"
#include "tests/unit/browser.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

net::Response sign_in(const HeadUnderTest& head, const std::string& token,
                      std::map<std::string, std::string> headers = {}) {
    headers.try_emplace("content-type", "application/json");
    net::Client client(head.endpoint(""));
    const auto answer = client.call({.method = "POST",
                                     .target = "/v1/session",
                                     .body = json_text(json{{"token", token}}),
                                     .headers = std::move(headers)});
    REQUIRE(answer.ok());
    return *answer;
}

std::string concrete_path(std::string pattern) {
    for (std::size_t at; (at = pattern.find('{')) != std::string::npos;)
        pattern.replace(at, pattern.find('}', at) - at + 1, "x");
    return pattern;
}

}  // namespace

TEST_CASE("a browser signs in, reads and changes as its user, and signs out") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const Browser ann(head, head.make_token("user", "ann"));
    CHECK(ann.set_cookie.find("HttpOnly; SameSite=Strict") != std::string::npos);
    const json who = ann.call("GET", "/v1/session").body;
    CHECK(who["user"] == "ann");
    CHECK(who["role"] == "user");
    CHECK(who["csrf"] == ann.csrf);
    CHECK(ann.call("POST", "/v1/runs", {{"job", job("own")}}).body["user"] == "ann");
    CHECK(ann.call("GET", "/v1/tokens").status == 403);
    CHECK(ann.call("DELETE", "/v1/session").status == 200);
    CHECK(ann.call("GET", "/v1/session").status == 401);
    CHECK(ann.call("GET", "/v1/runs").status == 401);
}

TEST_CASE("who signs in is in the audit, and no answer is kept by a cache or read as something else") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const Browser ann(head, head.make_token("user", "ann"));
    bool audited = false;
    const json audit = head.call("GET", "/v1/audit").body["items"];
    for (const json& row : audit) audited = audited || (row["action"] == "POST /v1/session" && row["user"] == "ann");
    CHECK(audited);
    for (const char* target : {"/v1/session", "/v1/runs", "/v1/nothing", "/healthz"}) {
        const auto answer = ann.answer("GET", target);
        INFO(target);
        CHECK(answer.headers.at("cache-control") == "no-store");
        CHECK(answer.headers.at("x-content-type-options") == "nosniff");
        CHECK(answer.headers.at("cross-origin-resource-policy") == "same-origin");
        CHECK(answer.headers.at("content-security-policy").find("frame-ancestors 'none'") != std::string::npos);
    }
}

TEST_CASE("a revoked token ends its sessions and their streams, and sessions survive a restart of the head") {
    const TemporaryFolder folder;
    std::string admin, ann_token;
    std::optional<Browser> ann;
    {
        HeadUnderTest head({.data_dir = folder.path});
        ann_token = head.make_token("user", "ann");
        ann.emplace(head, ann_token);
        admin = head.admin;
    }
    HeadUnderTest head({.data_dir = folder.path});
    head.admin = admin;
    ann->moved_to(head);
    REQUIRE(ann->call("GET", "/v1/runs").status == 200);
    std::promise<void> ended;
    net::Client follower(head.endpoint(""));
    std::thread reader([&] {
        (void)follower.call({.target = "/v1/events?follow=true",
                             .headers = ann->headers(),
                             .on_piece = [](std::string_view) { return true; }});
        ended.set_value();
    });
    const std::string id = security::parse_token(ann_token)->id;
    CHECK(head.call("DELETE", "/v1/tokens/" + id).status == 200);
    CHECK(ann->call("GET", "/v1/runs").status == 401);
    head.call("POST", "/v1/runs", {{"job", job("pokes-the-stream")}});
    CHECK(ended.get_future().wait_for(patience) == std::future_status::ready);
    follower.abort();
    reader.join();
}

TEST_CASE("only people's tokens sign in, only as JSON from the head's own page, and never with a brought secret") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    CHECK(sign_in(head, "rtu1.abcdef.0123456789").status == 401);
    CHECK(sign_in(head, head.make_token("node", "")).status == 409);
    CHECK(sign_in(head, head.make_token("metrics", "")).status == 409);
    CHECK(sign_in(head, head.admin, {{"content-type", "text/plain"}}).status == 400);
    CHECK(sign_in(head, head.admin, {{"origin", "https://evil.example"}}).status == 403);
    CHECK(sign_in(head, head.admin, {{"sec-fetch-site", "cross-site"}}).status == 403);
    CHECK(sign_in(head, head.admin, {{"host", "evil.example"}}).status == 403);
    const Browser first(head, head.admin);
    const auto again = sign_in(head, head.admin, {{"cookie", first.cookie}});
    CHECK(again.status == 201);
    CHECK(again.headers.at("set-cookie").find(first.cookie) == std::string::npos);
}

TEST_CASE("failed sign-ins are bounded, and a valid token still signs in") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const Browser admin(head, head.admin);
    int refused = 0;
    for (int i = 0; i < 20; ++i) {
        const auto answer = sign_in(head, "rtu1.abcdef.0123456789");
        if (answer.status != 429) continue;
        ++refused;
        CHECK(answer.headers.at("retry-after") == "6");
    }
    CHECK(refused >= 5);  // one attempt comes back every six seconds
    CHECK(sign_in(head, head.admin, {{"content-type", "text/plain"}}).status == 429);
    CHECK(admin.call("GET", "/v1/runs").status == 200);
    CHECK(sign_in(head, head.admin).status == 201);
}

TEST_CASE(
    "with a session no route changes anything without the CSRF token, or for another host or another site's page") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const Browser admin(head, head.admin);
    for (const head::Route& route : head::routes()) {
        const std::string method = route.method;
        if (route.access == head::Access::anyone || route.access == head::Access::browser) continue;
        INFO(method << " " << route.pattern);
        const auto status = [&](const char* name, const std::string& value) {
            auto headers = admin.headers();
            headers[name] = value;
            return admin.answer(method, concrete_path(route.pattern), headers).status;
        };
        CHECK(status("host", "evil.example") == 403);
        CHECK(status("origin", "https://evil.example") == 403);
        CHECK(status("sec-fetch-site", "cross-site") == 403);
        if (method == "GET" || method == "HEAD") continue;
        CHECK(status("origin", "") == 403);
        CHECK(status(head::csrf_header, "") == 403);
        CHECK(status(head::csrf_header, std::string(64, '0')) == 403);
    }
    CHECK(admin.call("GET", "/v1/status").status == 200);
}

TEST_CASE(
    "the page is served to everybody, for the head's own host alone, with a policy that permits no inline script") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path, .page_names = {"gpus.example.org"}});
    net::Client client(head.endpoint(""));
    const auto get = [&](const std::string& target, const std::map<std::string, std::string>& headers) {
        const auto answer = client.call({.target = target, .headers = headers});
        REQUIRE(answer.ok());
        return *answer;
    };
    const std::map<std::string, std::string> gzip = {{"accept-encoding", "gzip, br"}};
    const auto page = get("/", gzip);
    CHECK(page.status == 200);
    CHECK(page.content_type.starts_with("text/html"));
    CHECK(page.headers.at("content-security-policy").find("unsafe") == std::string::npos);
    CHECK(page.headers.at("content-security-policy").starts_with("default-src 'none'"));
    CHECK(page.headers.at("referrer-policy") == "no-referrer");
    CHECK(get("/", {{"host", "gpus.example.org"}, {"accept-encoding", "gzip"}}).status == 200);
    CHECK(get("/", {{"host", "evil.example"}}).status == 403);
    CHECK(get("/assets/nothing.js", gzip).status == 404);
    if (!page.headers.contains("etag")) return;  // a build without node
    CHECK(page.headers.at("content-encoding") == "gzip");
    CHECK(page.headers.at("cache-control") == "no-cache");
    CHECK(get("/", {{"accept-encoding", "gzip"}, {"if-none-match", page.headers.at("etag")}}).status == 304);
    CHECK(get("/", {{"accept-encoding", "identity"}}).status == 400);
}

// The local proxy of `rtrain dashboard` serves the browser that opened the link, once, and its own page.
#include "cmd/dashboard/gate.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::cmd;

namespace {

using What = Gate::Verdict::What;
constexpr const char* host = "127.0.0.1:8123";

net::MessageHead get(const std::string& target, std::map<std::string, std::string> headers = {}) {
    net::MessageHead head;
    head.method = "GET";
    head.target = target;
    head.headers["host"] = host;
    for (auto& [name, value] : headers) head.headers[name] = value;
    return head;
}

struct Story {
    Gate gate{8123, "link", "cookie", 0};
    int status(const net::MessageHead& head, std::int64_t now = 0) { return gate.judge(head, now).status; }
    What what(const net::MessageHead& head, std::int64_t now = 0) { return gate.judge(head, now).what; }
};

const std::map<std::string, std::string> own = {{"cookie", "a=b; rtrain-dashboard-8123=cookie"}};

std::map<std::string, std::string> own_and(const std::string& name, const std::string& value) {
    auto headers = own;
    headers[name] = value;
    return headers;
}

}  // namespace

TEST_CASE("the link opens one browser, once; that browser may open it again") {
    Story story;
    CHECK(story.gate.link() == "http://127.0.0.1:8123/open/link");
    CHECK(story.status(get("/open/wrong")) == 403);
    CHECK(story.gate.link_opens(0));
    CHECK(story.what(get("/open/link")) == What::open);
    CHECK(!story.gate.link_opens(0));
    CHECK(story.status(get("/open/link")) == 403);
    CHECK(story.what(get("/open/link", own)) == What::open);
    for (const char* part : {"rtrain-dashboard-8123=cookie;", "HttpOnly", "SameSite=Strict", "Path=/"})
        CHECK(story.gate.set_cookie().find(part) != std::string::npos);
}

TEST_CASE("the link opens nothing after five minutes, for a browser that only looks ahead, or by another method") {
    Story story;
    CHECK(story.status(get("/open/link", {{"sec-purpose", "prefetch;prerender"}})) == 403);
    net::MessageHead head = get("/open/link");
    head.method = "HEAD";
    CHECK(story.status(head) == 403);
    CHECK(!story.gate.link_opens(link_opens_ms));
    CHECK(story.status(get("/open/link"), link_opens_ms) == 403);
    CHECK(story.what(get("/open/link"), link_opens_ms - 1) == What::open);
}

TEST_CASE("without the cookie nothing passes, with it everything of the own page does") {
    Story story;
    for (const char* target : {"/", "/v1/runs", "/assets/x.js"}) {
        CHECK(story.status(get(target)) == 401);
        CHECK(story.status(get(target, {{"cookie", "rtrain-dashboard-8123=other"}})) == 401);
        CHECK(story.status(get(target, {{"cookie", "rtrain-dashboard-8123"}})) == 401);
        CHECK(story.what(get(target, own)) == What::pass);
    }
    net::MessageHead post = get("/v1/runs/x/stop", own_and("origin", "http://127.0.0.1:8123"));
    post.method = "POST";
    CHECK(story.what(post) == What::pass);
}

TEST_CASE("another name, another origin and another site's page are refused, with the cookie too") {
    Story story;
    for (const char* name : {"localhost:8123", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", ""}) {
        CHECK(story.status(get("/", own_and("host", name))) == 403);
        CHECK(story.status(get("/open/link", {{"host", name}})) == 403);
    }
    for (const char* page : {"http://localhost:8123", "https://127.0.0.1:8123", "null", "http://evil.example"})
        CHECK(story.status(get("/v1/runs", own_and("origin", page))) == 403);
    for (const char* site : {"cross-site", "same-site"})
        CHECK(story.status(get("/v1/runs", own_and("sec-fetch-site", site))) == 403);
    net::MessageHead post = get("/v1/runs/x/stop", own);
    post.method = "POST";
    CHECK(story.status(post) == 403);
    CHECK(story.what(get("/open/link")) == What::open);  // No earlier request has used the link.
}

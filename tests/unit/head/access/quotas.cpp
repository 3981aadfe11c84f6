// An admin reads and limits the bytes that the head stores for a user.
#include "tests/unit/head_agent.hpp"
#include "tests/unit/net_raw.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

Answer put_text(const HeadUnderTest& head, const std::string& token, const std::string& target, std::size_t bytes) {
    return HeadUnderTest::send(head.endpoint(token),
                               {.method = "PUT", .target = target, .body = std::string(bytes, 't')});
}

}  // namespace

TEST_CASE("an admin sees a user's use by kind, and another limit holds at once and after a restart") {
    const TemporaryFolder folder;
    const HeadOptions options{.data_dir = folder.path};
    std::string admin, ann;
    {
        HeadUnderTest head(options);
        admin = head.admin;
        ann = head.make_token("user", "ann");
        REQUIRE(head.call_as(ann, "POST", "/v1/runs", {{"job", job("a")}}).status == 201);
        REQUIRE(put_text(head, ann, "/v1/runs/a/values/v", 5'000).status == 200);
        const Answer seen = head.call("GET", "/v1/quotas/ann");
        REQUIRE(seen.status == 200);
        CHECK(seen.body.at("own_limit") == false);
        CHECK(seen.body.at("used").at("files") == 5'000);
        CHECK(seen.body.at("kinds").at("values").at("files") == 5'000);
        CHECK(seen.body.at("kinds").at("runs").at("memory") > 0);
        CHECK(seen.body.at("kinds").at("events").at("database") > 0);
        CHECK(seen.body.at("kinds").at("audit").at("database") > 0);
        const json limit = seen.body.at("limit");
        const Answer set = head.call("PUT", "/v1/quotas/ann", {{"files", 6'000}});
        REQUIRE(set.status == 200);
        CHECK(set.body.at("limit").at("files") == 6'000);
        CHECK(set.body.at("limit").at("memory") == limit.at("memory"));
        CHECK(set.body.at("own_limit") == true);
        CHECK(put_text(head, ann, "/v1/runs/a/values/w", 5'000).status == 507);
        CHECK(head.call("GET", "/v1/quotas/bob").body.at("limit") == limit);
    }
    HeadUnderTest head(options);
    head.admin = admin;
    CHECK(put_text(head, ann, "/v1/runs/a/values/w", 5'000).status == 507);
    CHECK(head.call("GET", "/v1/quotas/ann").body.at("used").at("files") == 5'000);
    REQUIRE(head.call("PUT", "/v1/quotas/ann", {{"default", true}}).body.at("own_limit") == false);
    CHECK(put_text(head, ann, "/v1/runs/a/values/w", 5'000).status == 200);
    const json rows = head.call("GET", "/v1/audit?limit=1000").body.at("items");
    const auto changed = std::count_if(rows.begin(), rows.end(), [](const json& row) {
        return row.at("action") == "PUT /v1/quotas/{user}" &&
               row.at("target").get<std::string>().find("limit=") != std::string::npos;
    });
    CHECK(changed == 2);
    const std::string metrics = head.call("GET", "/metrics").text;
    CHECK(metrics.find(R"(rtrain_user_kept_bytes{user="ann",place="files"} 10000)") != std::string::npos);
    CHECK(metrics.find(R"(rtrain_user_limit_bytes{user="ann",place="memory"} 536870912)") != std::string::npos);
    CHECK(metrics.find(R"(rtrain_user_streams{user="ann"} 0)") != std::string::npos);
    CHECK(metrics.find(R"(rtrain_head_disk_reserved{what="files"} )") != std::string::npos);
}

TEST_CASE("an admin sets a user's limit of streams, which holds at once and after a restart") {
    const TemporaryFolder folder;
    const HeadOptions options{.data_dir = folder.path, .user_streams = 2};
    std::string admin, ann;
    const auto follow = [&](const HeadUnderTest& head) {
        auto raw = std::make_unique<net_tests::RawTls>(head.started.port);
        raw->say("GET /v1/events?follow=true HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + ann + "\r\n\r\n");
        return raw;
    };
    const auto limits = [](const Answer& answer) {
        return std::pair(answer.body.at("streams_limit").get<int>(), answer.body.at("own_limit").get<bool>());
    };
    {
        HeadUnderTest head(options);
        admin = head.admin;
        ann = head.make_token("user", "ann");
        const json bytes = head.call("GET", "/v1/quotas/ann").body.at("limit");
        CHECK(limits(head.call("GET", "/v1/quotas/ann")) == std::pair(2, false));
        const Answer set = head.call("PUT", "/v1/quotas/ann", {{"streams", 1}});
        REQUIRE(set.status == 200);
        CHECK(limits(set) == std::pair(1, true));
        CHECK(set.body.at("limit") == bytes);
        CHECK(limits(head.call("PUT", "/v1/quotas/ann", {{"files", 6'000}})) == std::pair(1, true));
        CHECK(limits(head.call("GET", "/v1/quotas/bob")) == std::pair(2, false));
    }
    HeadUnderTest head(options);
    head.admin = admin;
    CHECK(limits(head.call("GET", "/v1/quotas/ann")) == std::pair(1, true));
    CHECK(head.call("GET", "/v1/quotas/ann").body.at("limit").at("files") == 6'000);
    const auto open = [&] { return head.call("GET", "/v1/quotas/ann").body.at("streams").get<int>(); };
    const auto first = follow(head);
    REQUIRE(eventually([&] { return open() == 1; }));
    const Answer refused = head.call_as(ann, "GET", "/v1/events?follow=true");
    CHECK(refused.status == 429);
    CHECK(refused.text.find("user ann has 1 streams open") != std::string::npos);
    CHECK(refused.text.find("rtrain access quota ann --streams N") != std::string::npos);
    CHECK(limits(head.call("PUT", "/v1/quotas/ann", {{"default", true}})) == std::pair(2, false));
    const auto second = follow(head);
    CHECK(eventually([&] { return open() == 2; }));
}

TEST_CASE("a limit that is no number of bytes, or of nobody, is refused") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    for (const json& body :
         {json::object(), json{{"files", -1}}, json{{"files", "1GiB"}}, json{{"memory", 1.5}}, json{{"streams", -1}},
          json{{"streams", 100'001}}, json{{"database", std::numeric_limits<std::uint64_t>::max()}}})
        CHECK(head.call("PUT", "/v1/quotas/ann", body).status == 400);
    CHECK(head.call("GET", "/v1/quotas/" + std::string(300, 'a')).status == 400);
}

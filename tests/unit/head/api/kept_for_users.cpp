// The bytes that the head stores for one user are bounded. Beyond the limit only that user is refused, with the name of
// the limit, and stored data stay.
#include <filesystem>
#include <fstream>

#include "daemon/head/view/reports.hpp"
#include "tests/unit/head_agent.hpp"
#include "tests/unit/net_raw.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

constexpr std::int64_t MiB = 1 << 20, roomy = 1LL << 40;

HeadOptions with_limit(const TemporaryFolder& folder, head::KeptBytes limit) {
    return {.data_dir = folder.path, .user_limit = limit};
}

Answer put(const HeadUnderTest& head, const std::string& token, const std::string& target, std::string bytes) {
    return HeadUnderTest::send(head.endpoint(token), {.method = "PUT", .target = target, .body = std::move(bytes)});
}

std::string blob(const std::string& bytes) { return "/v1/blobs/" + security::sha256_hex(bytes); }

std::vector<std::string> notes(const HeadUnderTest& head, const std::string& run) {
    std::vector<std::string> out;
    const Answer answer = head.call("GET", "/v1/events?limit=1000&run=" + run);
    for (const json& event : answer.body.at("items")) out.push_back(event.at("text"));
    return out;
}

std::size_t notes_with(const HeadUnderTest& head, const std::string& run, const std::string& words) {
    std::size_t count = 0;
    for (const std::string& note : notes(head, run)) count += note.find(words) != std::string::npos;
    return count;
}

}  // namespace

TEST_CASE("the values of one user fill that user's part alone, also after a restart") {
    const TemporaryFolder folder;
    const HeadOptions options = with_limit(folder, {.memory = roomy, .database = roomy, .files = 2 * MiB});
    std::string admin, ann, bob;
    const std::string large(700'000, 'v');
    {
        HeadUnderTest head(options);
        admin = head.admin;
        ann = head.make_token("user", "ann");
        bob = head.make_token("user", "bob");
        for (const auto& [token, name] : {std::pair(ann, "a"), std::pair(ann, "b"), std::pair(bob, "c")})
            REQUIRE(head.call_as(token, "POST", "/v1/runs", {{"job", job(name)}}).status == 201);
        CHECK(put(head, ann, "/v1/runs/a/values/one", large).status == 200);
        CHECK(put(head, ann, "/v1/runs/b/values/one", large).status == 200);
        CHECK(put(head, ann, "/v1/runs/a/values/one", large).status == 200);  // it replaces the earlier value
        const Answer refused = put(head, ann, "/v1/runs/b/values/two", large);
        CHECK(refused.status == 507);
        CHECK(says(refused, "user ann has 1.3 MiB in the head's files (values 1.3 MiB)"));
        CHECK(says(refused, "rtrain access quota ann"));
        CHECK(put(head, bob, "/v1/runs/c/values/one", large).status == 200);
        REQUIRE(head.call_as(ann, "POST", "/v1/runs/a/stop").status == 202);
    }
    HeadUnderTest head(options);
    head.admin = admin;
    CHECK(put(head, ann, "/v1/runs/b/values/two", large).status == 507);
    REQUIRE(head.call_as(ann, "DELETE", "/v1/runs/a").status == 200);
    CHECK(put(head, ann, "/v1/runs/b/values/two", large).status == 200);
}

TEST_CASE("archives that no run needs count for their sender alone, and so does one that is under way") {
    const TemporaryFolder folder;
    HeadUnderTest head(with_limit(folder, {.memory = roomy, .database = roomy, .files = MiB}));
    const std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
    const std::string one(600'000, '1'), two(600'000, '2');
    CHECK(put(head, ann, blob(one), one).status == 201);
    CHECK(put(head, bob, blob(one), one).status == 201);
    const Answer refused = put(head, ann, blob(two), two);
    CHECK(refused.status == 507);
    CHECK(says(refused, "archives 585.9 KiB"));
    CHECK(put(head, head.admin, blob(two), two).status == 201);

    net_tests::RawTls raw(head.started.port);  // the request's header has no length
    raw.say("PUT " + blob(two) + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + bob +
            "\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    const std::string chunk = "10000\r\n" + std::string(0x10000, 'x') + "\r\n";
    for (int i = 0; i < 10; ++i) raw.say(chunk);
    raw.say("0\r\n\r\n");
    CHECK(raw.read_all().starts_with("HTTP/1.1 507"));
    CHECK(eventually([&] {  // the upload's reservation is released
        const std::string small(400'000, 's');
        return put(head, bob, blob(small), small).status == 201;
    }));
}

TEST_CASE("uploads at the same time do not pass the limit together") {
    const TemporaryFolder folder;
    HeadUnderTest head(with_limit(folder, {.memory = roomy, .database = roomy, .files = MiB}));
    const std::string ann = head.make_token("user", "ann"), slow(600'000, 's'), quick(600'000, 'q');
    net_tests::RawTls raw(head.started.port);
    const std::string start = "PUT " + blob(slow) + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + ann +
                              "\r\nContent-Length: 600000\r\nConnection: close\r\n\r\n";
    raw.say(start + slow.substr(0, 1'000));  // the rest is under way
    const auto reserved = [&] {
        const json used = head.call("GET", "/v1/quotas/ann").body.at("kinds");
        return used.contains("uploads") ? used.at("uploads").at("files").get<int>() : 0;
    };
    REQUIRE(eventually([&] { return reserved() == 600'000; }));
    const Answer refused = put(head, ann, blob(quick), quick);
    CHECK(refused.status == 507);
    CHECK(says(refused, "(uploads 585.9 KiB)"));
    raw.say(slow.substr(1'000));
    CHECK(raw.read_all().starts_with("HTTP/1.1 201"));
    CHECK(eventually([&] { return reserved() == 0; }));
    CHECK(put(head, ann, blob(quick), quick).status == 507);  // the archive counts instead of the reservation
}

TEST_CASE("streams of one user end at a limit that others do not share") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path, .user_streams = 2});
    const std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
    const auto follow = [&](const std::string& token) {
        auto raw = std::make_unique<net_tests::RawTls>(head.started.port);
        raw->say("GET /v1/events?follow=true HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + token + "\r\n\r\n");
        return raw;
    };
    const auto open = [&] { return head.call("GET", "/v1/quotas/ann").body.at("streams").get<int>(); };
    auto first = follow(ann), second = follow(ann);
    REQUIRE(eventually([&] { return open() == 2; }));
    const Answer refused = head.call_as(ann, "GET", "/v1/events?follow=true");
    CHECK(refused.status == 429);
    CHECK(says(refused, "user ann has 2 streams open"));
    CHECK(head.call_as(ann, "GET", "/v1/events").status == 200);
    auto others = follow(bob);
    CHECK(eventually([&] { return head.call("GET", "/v1/quotas/bob").body.at("streams") == 1; }));
    first.reset();
    CHECK(eventually([&] { return open() == 1; }));
}

TEST_CASE("reports beyond the user's limit are not kept, the run is told once, and goes on") {
    const TemporaryFolder folder;
    HeadUnderTest head(with_limit(folder, {.memory = roomy, .database = MiB, .files = roomy}));
    const std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    json spec = job("floods");
    spec["stop"] = {{"epoch", 60}};
    REQUIRE(head.call_as(ann, "POST", "/v1/runs", {{"job", spec}}).status == 201);
    const auto floods = start_attempt(agent, 1);
    const auto report = [&](std::uint64_t index, std::size_t bytes) {
        agent.tell(protocol::Reported{.attempt = floods,
                                      .index = index,
                                      .metrics_json = {{0, R"({"epoch":)" + std::to_string(index) + R"(,"t":")" +
                                                               std::string(bytes, 'x') + "\"}"}}});
    };
    const auto kept = [&] { return head.call("GET", "/v1/runs/floods/metrics?limit=1000").body.at("items").size(); };
    for (std::uint64_t index = 1; index <= 50; ++index) report(index, 100'000);
    CHECK(eventually([&] { return notes_with(head, "floods", "not all reports of this run are kept") == 1; }));
    CHECK(notes_with(head, "floods", "user ann has") == 1);
    CHECK(kept() < 12);
    CHECK(kept() > 5);
    CHECK(state_of(head, "floods") == "RUNNING");
    CHECK(head.call_as(bob, "POST", "/v1/runs", {{"job", job("other")}}).status == 201);
    CHECK(says(head.call_as(ann, "POST", "/v1/runs", {{"job", job("more", 5'000)}}), "reports"));
    report(60, 200'000);  // the core gets the value of a report that is not stored
    CHECK(agent.expect<protocol::Stop>().why.find("epoch reached 60") != std::string::npos);
}

TEST_CASE("logs beyond the user's limit stay on their node until there is room") {
    const TemporaryFolder folder;
    HeadUnderTest head(with_limit(folder, {.memory = roomy, .database = roomy, .files = MiB}));
    const std::string ann = head.make_token("user", "ann");
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call_as(ann, "POST", "/v1/runs", {{"job", job("chatty")}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    REQUIRE(head.call_as(ann, "POST", "/v1/runs", {{"job", job("old", 1'000)}}).status == 201);  // it waits for nodes
    REQUIRE(put(head, ann, "/v1/runs/old/values/v", std::string(800'000, 'v')).status == 200);
    const protocol::LogChunk chunk{.attempt = attempt, .stream = "out", .bytes = std::string(300'000, 'l') + "\n"};
    agent.say(chunk);
    CHECK(agent.expect<protocol::LogAck>().later);
    CHECK(eventually([&] { return notes_with(head, "chatty", "logs of this run stay on their nodes") == 1; }));
    REQUIRE(head.call_as(ann, "POST", "/v1/runs/old/stop").status == 202);
    REQUIRE(eventually([&] { return state_of(head, "old") == "STOPPED"; }));
    REQUIRE(head.call_as(ann, "DELETE", "/v1/runs/old").status == 200);
    CHECK(eventually([&] {
        agent.say(chunk);
        return agent.expect<protocol::LogAck>().offset == chunk.bytes.size();
    }));
}

TEST_CASE("a run whose attempts reach the user's limit fails and says so") {
    const TemporaryFolder folder;
    HeadUnderTest head(with_limit(folder, {.memory = 400'000, .database = roomy, .files = roomy}));
    const std::string ann = head.make_token("user", "ann");
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    json spec = job("flaky");
    spec["failure"] = {{"max_failures", 1'000}, {"backoff", "1ms"}, {"avoid_bad_nodes", false}};
    REQUIRE(head.call_as(ann, "POST", "/v1/runs", {{"job", spec}}).status == 201);
    int attempts = 0;
    for (; attempts < 10 && state_of(head, "flaky") != "FAILED"; ++attempts) {
        const auto attempt = start_attempt(agent, 1);
        ExitCause cause = exited(1);
        cause.detail = std::string(60'000, 'd');
        agent.tell(protocol::Exited{.attempt = attempt, .rank = 0, .cause = cause, .exit_wall_us = 1});
        agent.expect<protocol::Stop>();
        agent.tell(protocol::Emptied{attempt});
        REQUIRE(eventually([&] {
            const std::string state = state_of(head, "flaky");
            return state != "RUNNING" && state != "STOPPING" && state != "RECOVERING";
        }));
    }
    CHECK(attempts < 10);
    CHECK(attempts > 1);
    const Answer run = head.call_as(ann, "GET", "/v1/runs/flaky");
    CHECK(says(run, "no further attempt: user ann has"));
    CHECK(says(run, "of attempts more would pass the limit of 390.6 KiB"));
    CHECK(says(run, "rtrain access quota ann"));
}

TEST_CASE("metrics that are no JSON object are read as empty before the loop") {
    const protocol::Reported report{.index = 1,
                                    .metrics_json = {{0, "{\"a\":1}"}, {1, "[1]"}, {2, "{\"a\":"}, {3, ""}}};
    protocol::FromAgent one = protocol::News{.what = report};
    head::check_metrics(one);
    const auto& checked = std::get<protocol::Reported>(std::get<protocol::News>(one).what);
    CHECK(head::joined(checked) == R"({"0":{"a":1},"1":{},"2":{},"3":{}})");
    protocol::FromAgent several = protocol::NewsBatch{.items = {{.what = report}}};
    head::check_metrics(several);
    CHECK(std::get<protocol::NewsBatch>(several).items[0].what == protocol::News{.what = checked}.what);
}

TEST_CASE("cluster:// uploads at the same time stay within the user's limit") {
    const TemporaryFolder folder;
    HeadUnderTest head(with_limit(folder, {.memory = roomy, .database = roomy, .files = roomy, .storage = MiB}));
    const std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
    const net::Endpoint node = join(head, "n1");
    HandMadeAgent agent(node, "n1");
    agent.register_node();
    for (const auto& [token, name] : {std::pair(ann, "a"), std::pair(bob, "b")}) {
        REQUIRE(head.call_as(token, "POST", "/v1/runs", {{"job", job(name)}}).status == 201);
        start_attempt(agent, 1);
    }
    constexpr int bytes = 400'000, sent_at_once = 1'000;
    const auto begin = [&](const std::string& path) {
        auto raw = std::make_unique<net_tests::RawTls>(head.started.port, node.certificate, node.private_key);
        raw->say("PUT /v1/storage/" + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(bytes) +
                 "\r\nConnection: close\r\n\r\n" + std::string(sent_at_once, 'x'));
        return raw;
    };
    const auto finish = [&](net_tests::RawTls& raw) {
        raw.say(std::string(bytes - sent_at_once, 'x'));
        return raw.read_all().substr(0, 12);
    };
    const auto storage = [&](const char* kind) {
        const json kinds = head.call("GET", "/v1/quotas/ann").body.at("kinds");
        return kinds.contains(kind) ? kinds.at(kind).at("storage").get<int>() : 0;
    };
    auto one = begin("a/one");
    REQUIRE(eventually([&] { return storage("uploads") == bytes; }));
    auto two = begin("a/two");
    REQUIRE(eventually([&] { return storage("uploads") == 2 * bytes; }));
    CHECK(storage("stored files") == 0);
    for (const char* path : {"a/three", "a/four"}) CHECK(begin(path)->read_all().starts_with("HTTP/1.1 507"));
    CHECK(storage("uploads") == 2 * bytes);
    CHECK(finish(*begin("b/one")) == "HTTP/1.1 201");  // another user's

    one.reset();  // The upload breaks off.
    CHECK(eventually([&] { return storage("uploads") == bytes; }));
    auto three = begin("a/three");
    REQUIRE(eventually([&] { return storage("uploads") == 2 * bytes; }));
    CHECK(finish(*two) == "HTTP/1.1 201");
    CHECK(finish(*three) == "HTTP/1.1 201");
    CHECK(eventually([&] { return storage("uploads") == 0; }));
    CHECK(storage("stored files") == 2 * bytes);
    CHECK(begin("a/four")->read_all().starts_with("HTTP/1.1 507"));
}

TEST_CASE("files below cluster:// count for the run's user, also after a restart") {
    const TemporaryFolder folder;
    const HeadOptions options =
        with_limit(folder, {.memory = roomy, .database = roomy, .files = roomy, .storage = MiB});
    std::string admin, ann;
    const auto stored = [](const HeadUnderTest& head) {
        return head.call("GET", "/v1/quotas/ann").body.at("used").at("storage").get<std::int64_t>();
    };
    {
        HeadUnderTest head(options);
        admin = head.admin;
        ann = head.make_token("user", "ann");
        const net::Endpoint node = join(head, "n1");
        HandMadeAgent agent(node, "n1");
        agent.register_node();
        REQUIRE(head.call_as(ann, "POST", "/v1/runs", {{"job", job("a")}}).status == 201);
        const auto attempt = start_attempt(agent, 1);
        const auto write = [&](const std::string& target, std::size_t bytes) {
            return HeadUnderTest::send(
                node, {.method = "PUT", .target = "/v1/storage/a/" + target, .body = std::string(bytes, 'x')});
        };
        CHECK(write("run.json", 0).status == 201);
        CHECK(write("one", 500'000).status == 201);
        CHECK(write("one", 400'000).status == 201);  // it replaces the earlier file
        CHECK(write("two?upload=u&offset=0&total=300000", 100'000).status == 200);
        CHECK(write("two?upload=u&offset=100000&total=300000", 200'000).status == 200);
        CHECK(eventually([&] { return stored(head) == 700'000; }));
        const Answer refused = write("three", 400'000);
        CHECK(refused.status == 507);
        CHECK(says(refused, "user ann has 683.6 KiB in the head's storage (cluster://) (stored files 683.6 KiB)"));
        CHECK(says(refused, "rtrain runs rm --files"));
        CHECK(HeadUnderTest::send(node, {.method = "DELETE", .target = "/v1/storage/a/two"}).status == 200);
        CHECK(write("three", 400'000).status == 201);
        REQUIRE(head.call_as(ann, "POST", "/v1/runs/a/stop").status == 202);
        agent.expect<protocol::Stop>();
        agent.tell(protocol::Exited{.attempt = attempt, .rank = 0, .cause = exited(0), .exit_wall_us = 1});
        agent.tell(protocol::Emptied{attempt});
        REQUIRE(eventually([&] { return state_of(head, "a") == "STOPPED"; }));
    }
    HeadUnderTest head(options);
    head.admin = admin;
    CHECK(eventually([&] { return stored(head) >= 800'000; }));  // with the head's result.json
    CHECK(stored(head) < 810'000);
    const json run = head.call_as(ann, "GET", "/v1/runs/a").body;
    std::ofstream(folder.path + "/storage/a/run.json")
        << json{{"cluster_id", head.call("GET", "/v1/status").body.at("cluster_id")},
                {"run_id", run.at("run_id")},
                {"user", "ann"}};
    CHECK(head.call_as(ann, "DELETE", "/v1/runs/a?files=true").status == 200);
    CHECK(eventually([&] { return stored(head) == 0; }));
}

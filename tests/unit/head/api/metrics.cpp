// The reports of a run's ranks: all of every rank, in order, as pages and as a stream that can be resumed. They become
// durable together with the numbers of their news.
#include "storage/state/sqlite.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

void report(HandMadeAgent& agent, protocol::AttemptRef attempt, std::uint64_t index) {
    const std::string step = std::to_string(index);
    agent.tell(protocol::Reported{
        .attempt = attempt,
        .index = index,
        .wall_ms = 5'000,
        .metrics_json = {{0, "{\"step\":" + step + "}"}, {1, "{\"step\":" + step + ",\"loss\":1.5}"}, {2, "no json"}},
        .checkpoint = index == 2 ? "checkpoint_000001-a001" : ""});
}

// Positions of the events of a stream from `after` on, until the run has ended.
std::vector<std::string> followed(const HeadUnderTest& head, const std::string& target, const std::string& resume_id) {
    net::Client client(head.endpoint(head.admin));
    std::vector<std::string> ids;
    net::Call call{.method = "GET", .target = target};
    if (!resume_id.empty()) call.headers["Last-Event-ID"] = resume_id;
    const auto answer = client.call(call);
    REQUIRE(answer.ok());
    for (std::size_t at = answer->body.find("id: "); at != std::string::npos; at = answer->body.find("id: ", at + 1))
        ids.push_back(answer->body.substr(at + 4, answer->body.find('\n', at) - at - 4));
    return ids;
}

}  // namespace

TEST_CASE("metrics of every rank are kept: one rank's, several, all, paged, followed and resumed") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("digits", 3)}}).status == 201);
    const auto attempt = start_attempt(agent, 3);
    for (std::uint64_t index = 1; index <= 5; ++index) report(agent, attempt, index);
    end_well(agent, attempt, 3);
    REQUIRE(eventually([&] { return state_of(head, "digits") == "SUCCEEDED"; }));

    const std::string metrics = "/v1/runs/digits/metrics";
    CHECK(head.call("GET", metrics).body["items"][4]["metrics"] == json{{"step", 5}});
    CHECK(head.call("GET", metrics + "?rank=1").body["items"][1]["metrics"] == json{{"step", 2}, {"loss", 1.5}});
    CHECK(head.call("GET", metrics + "?rank=1&key=loss").body["items"][1]["metrics"] == json{{"loss", 1.5}});
    const json all = head.call("GET", metrics + "?rank=all").body["items"][0]["metrics_by_rank"];
    CHECK(all == json{{"0", {{"step", 1}}}, {"1", {{"step", 1}, {"loss", 1.5}}}, {"2", json::object()}});
    CHECK(head.call("GET", metrics + "?rank=1-2").body["items"][0]["metrics_by_rank"].size() == 2);
    for (const std::string rank : {"0", "1-2", "all"}) {
        const json rows = head.call("GET", metrics + "?rank=" + rank).body["items"];
        CHECK(rows[1]["checkpoint"] == "checkpoint_000001-a001");
        CHECK_FALSE(rows[0].contains("checkpoint"));
    }
    CHECK(head.call("GET", metrics + "?rank=all").body["items"][1]["metrics_by_rank"].size() == 3);
    CHECK(head.call("GET", metrics + "?rank=3").status == 404);
    CHECK(head.call("GET", metrics + "?rank=failed").status == 400);

    const json page = head.call("GET", metrics + "?limit=2").body;
    CHECK(page["items"].size() == 2);
    const std::string cursor = page["next_cursor"];
    CHECK(head.call("GET", metrics + "?limit=2&cursor=" + cursor).body["items"][0]["index"] == 3);
    CHECK(followed(head, metrics + "?rank=all&follow=true", "") == std::vector<std::string>{"1", "2", "3", "4", "5"});
    CHECK(followed(head, metrics + "?rank=all&follow=true", "3") == std::vector<std::string>{"4", "5"});
    CHECK(followed(head, metrics + "?follow=true&after=4", "") == std::vector<std::string>{"5"});
}

TEST_CASE("reports of a megabyte come in short pages and streams") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("digits", 1)}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    const std::string text(1'000'000, 'x');
    constexpr std::uint64_t reports = 20;
    for (std::uint64_t index = 1; index <= reports; ++index)
        agent.tell(protocol::Reported{.attempt = attempt,
                                      .index = index,
                                      .wall_ms = 5'000,
                                      .metrics_json = {{0, "{\"loss\": 1.5,\n\"text\":\"" + text + "\"}"}}});
    const std::string metrics = "/v1/runs/digits/metrics";
    const json shown = {{"left_out", "this report has more than 16 KiB of metrics: rtrain metrics RUN"}};
    REQUIRE(eventually([&] {
        const json last = head.call("GET", "/v1/runs/digits").body["last_report"];
        return last.is_object() && last["index"] == reports && last["metrics"] == shown;
    }));
    std::uint64_t next = 1;
    std::string cursor = "0";
    while (!cursor.empty()) {
        const Answer page = head.call("GET", metrics + "?limit=1000&cursor=" + cursor);
        REQUIRE(page.status == 200);
        CHECK(page.text.size() < 6'000'000);
        for (const json& item : page.body["items"]) {
            CHECK(item["index"] == next++);
            CHECK(item["metrics"]["text"].get_ref<const std::string&>().size() == text.size());
        }
        cursor = page.body["next_cursor"].is_null() ? "" : page.body["next_cursor"].get<std::string>();
    }
    CHECK(next == reports + 1);
    CHECK(head.call("GET", metrics + "?limit=1000&key=loss").body["items"].size() == reports);  // the shown size counts
    end_well(agent, attempt, 1);
    CHECK(followed(head, metrics + "?follow=true", "").size() == reports);
}

TEST_CASE("news and their number become durable together: nobody ever sees the one without the other") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("digits", 1)}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    auto database = state::Database::open(folder.path + "/state.db", state::Database::Mode::existing).value();
    for (int round = 0; round < 20; ++round) {
        const std::string text = "notice " + std::to_string(round);
        agent.tell(protocol::Notice{.attempt = attempt, .text = text});
        std::int64_t noted = 0, seen = 0;
        REQUIRE(eventually([&] {
            const auto read = database.each(
                "SELECT (SELECT count(*) FROM events WHERE note=?1), (SELECT coalesce(max(CAST(value AS INTEGER)), 0) "
                "FROM settings WHERE key='head.news_seen/n1')",
                {text}, [&](const state::Row& row) { noted = row.integer(0), seen = row.integer(1); });
            return read.ok() && (noted > 0 || seen >= static_cast<std::int64_t>(agent.seq));
        }));
        CHECK(noted == 1);
        CHECK(seen == static_cast<std::int64_t>(agent.seq));
    }
}

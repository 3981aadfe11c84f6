// Work over many records runs in slices: other tasks run in between, and the answer is still complete.
#include "daemon/head/loop/slices.hpp"

#include <atomic>
#include <future>
#include <set>
#include <vector>

#include "base/json_text.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/net/loop/loop.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

constexpr int crowd = 2'500;

void submit_crowd(const HeadUnderTest& head) {
    const Answer made = head.call("POST", "/v1/runs", {{"job", job("crowd")}, {"array", "1-" + std::to_string(crowd)}});
    REQUIRE(made.status == 201);
}

}  // namespace

TEST_CASE("work in slices lets in what came meanwhile, and takes each step once") {
    net::Loop loop;
    std::vector<int> order;
    loop.post([&] {
        head::in_slices(loop, [&, step = 0]() mutable {
            const std::int64_t until_us = head::monotonic_us() + 700;
            while (head::monotonic_us() < until_us) continue;
            order.push_back(++step);
            if (step < 12) return true;
            loop.stop();
            return false;
        });
        order.push_back(0);  // the caller continues after the first slice
    });
    loop.post([&] { order.push_back(-1); });
    loop.run();
    const auto place = [&](int what) { return std::find(order.begin(), order.end(), what) - order.begin(); };
    CHECK(order.size() == 14);
    for (int step = 1; step < 12; ++step) CHECK(place(step) < place(step + 1));
    CHECK(place(0) < place(12));
    CHECK(place(-1) < place(12));
}

TEST_CASE("pages of thousands of runs hold each once, though others are submitted and removed meanwhile") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    submit_crowd(head);
    std::set<std::string> seen;
    std::string cursor = "0";
    for (int pages = 0; !cursor.empty(); ++pages) {
        REQUIRE(pages < 10);
        const Answer page = head.call("GET", "/v1/runs?limit=1000&cursor=" + cursor);
        REQUIRE(page.status == 200);
        CHECK(page.body.at("schema_version") == 1);
        CHECK(page.body.at("items").size() <= 1'000);
        for (const json& run : page.body.at("items")) CHECK(seen.insert(run.at("run_id")).second);
        const json next = page.body.at("next_cursor");
        cursor = next.is_null() ? "" : next.get<std::string>();
        CHECK(head.call("POST", "/v1/runs", {{"job", job("late-" + std::to_string(pages))}}).status == 201);
    }
    CHECK(seen.size() == crowd);
    CHECK(head.call("GET", "/v1/runs?name=nobody").body.at("items").empty());
    const Answer queue = head.call("GET", "/v1/queue?limit=1000&cursor=2000");
    CHECK(queue.body.at("items").size() == crowd + 3 - 2'000);
    CHECK(queue.body.at("items").at(0).at("position") == 2'001);
    CHECK(queue.body.at("next_cursor").is_null());
}

TEST_CASE("a page ends with its limit or at eight megabytes, and the next goes on behind it") {
    head::Listing page(1'000);
    const json item = std::string(1u << 20, 'x');
    int items = 0;
    for (; !page.full(); ++items) page.add(item);
    CHECK(items == 8);
    page.begin({{"number", 1}}, "workers");
    page.add_element(1);
    page.add_element(2);
    page.end();
    const json whole = parse_json(std::move(page).finish("next"));
    CHECK(whole.at("items").size() == 9);
    CHECK(json_text(whole.at("items").back()) == R"({"number":1,"workers":[1,2]})");
    CHECK(whole.at("next_cursor") == "next");

    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    for (int i = 0; i < 5; ++i) (void)head.make_token("user", "user-" + std::to_string(i));
    std::set<std::string> seen;
    std::string cursor = "0";
    while (!cursor.empty()) {
        const Answer tokens = head.call("GET", "/v1/tokens?limit=2&cursor=" + cursor);
        REQUIRE(tokens.body.at("items").size() <= 2);
        for (const json& one : tokens.body.at("items")) CHECK(seen.insert(one.at("id")).second);
        const json next = tokens.body.at("next_cursor");
        cursor = next.is_null() ? "" : next.get<std::string>();
    }
    CHECK(seen.size() == head.call("GET", "/v1/tokens?limit=1000").body.at("items").size());
    CHECK(seen.size() >= 6);
}

TEST_CASE("many readers of /metrics are served by few pages, or told to come again") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    submit_crowd(head);
    std::vector<Answer> answers(12);
    std::vector<std::thread> readers;
    for (Answer& answer : answers) readers.emplace_back([&] { answer = head.call("GET", "/metrics"); });
    for (std::thread& reader : readers) reader.join();
    const std::string last = "rtrain_runs{state=\"QUEUED\"} " + std::to_string(crowd) + "\n";
    int served = 0;
    for (const Answer& answer : answers) {
        if (answer.status == 200) {
            ++served;
            CHECK(answer.text.find(last) != std::string::npos);
        } else {
            CHECK(answer.status == 503);
            CHECK(answer.body.at("message") == "too many wait for /metrics already");
        }
    }
    CHECK(served >= 1);
    CHECK(head.call("GET", "/metrics").status == 200);
}

TEST_CASE("a loop that is stuck does not say that it lives, and answers nobody; then it goes on with both") {
    const TemporaryFolder folder;
    std::atomic<int> lives = 0;
    std::atomic<bool> stuck = false;
    const auto live = [&] {
        ++lives;
        stuck.wait(true);  // acts like an endless task
    };
    HeadUnderTest head({.data_dir = folder.path, .alive = live, .alive_every_ms = 5});
    REQUIRE(eventually([&] { return lives > 3; }));
    stuck = true;
    const int before = lives;
    REQUIRE(eventually([&] { return lives > before; }));  // for up to 5 ms the loop continues
    auto answer = std::async(std::launch::async, [&] { return head.call("GET", "/v1/status").status; });
    CHECK(answer.wait_for(std::chrono::milliseconds(300)) == std::future_status::timeout);
    CHECK(lives <= before + 2);
    stuck = false;
    stuck.notify_all();
    CHECK(answer.get() == 200);
    CHECK(eventually([&] { return lives > before + 3; }));
}

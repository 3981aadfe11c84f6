// A handler throws: the request is answered with 500, and the head continues.
#include <stdexcept>

#include "base/json_text.hpp"
#include "daemon/head/loop/event_loop.hpp"
#include "daemon/head/requests/exchange.hpp"
#include "tests/unit/head_fixture.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

struct Heard : net::Responder {
    void send(net::Response response) override { answers.push_back(std::move(response)); }
    std::shared_ptr<net::Stream> stream(std::string) override { return nullptr; }
    std::shared_ptr<net::Socket> accept_socket(net::SocketEvents) override { return nullptr; }
    bool wants_socket() const override { return false; }
    std::vector<net::Response> answers;
};

// A request, and the parts of a head that its handler gets. There is no server.
struct GuardedRequest {
    test::TemporaryFolder folder;
    std::unique_ptr<state::SqliteJournal> journal = state::SqliteJournal::open(folder.path).value();
    net::Loop loop;
    metrics::Metrics metrics{"test"};
    Clock clock{Time{0}};
    EventLoop events{loop, *journal, clock, metrics};
    head::RunNames names;
    UserBytes bytes{{}};
    Reports reports{bytes};
    Waits waits;
    View view{events.cluster(), clock, names, reports, waits};
    std::shared_ptr<Heard> heard = std::make_shared<Heard>();
    Exchange exchange{view, events, events, loop, {.method = "POST", .path = "/v1/ru\nns"}, heard};
    std::string body() const {
        REQUIRE(heard->answers.size() == 1);
        CHECK(heard->answers[0].status == 500);
        return heard->answers[0].body;
    }
};

}  // namespace

TEST_CASE("what a handler throws is its answer, with what was asked and what to do") {
    GuardedRequest story;
    guarded(story.exchange, [] { throw std::out_of_range("the sky"); });
    const test::json error = parse_json(story.body());
    CHECK(error["code"] == "internal");
    CHECK(error["message"].get<std::string>().find("the sky") != std::string::npos);
    CHECK(error["message"].get<std::string>().find(R"(POST "/v1/ru\nns")") != std::string::npos);
    CHECK(error["next"].get<std::string>().find("report it") != std::string::npos);
}

TEST_CASE("a head without memory ends: nothing it would go on with can be relied on") {
    GuardedRequest story;
    CHECK_THROWS_AS(guarded(story.exchange, [] { throw std::bad_alloc(); }), std::bad_alloc);
    CHECK(story.heard->answers.empty());
}

TEST_CASE("what a handler's work on the pool throws, or its answer, is answered too") {
    for (const bool on_pool_itself : {true, false}) {
        GuardedRequest story;
        on_pool(
            story.exchange,
            [on_pool_itself]() -> Result<int> {
                if (on_pool_itself) throw std::runtime_error("the disk");
                return 7;
            },
            [](Exchange& kept, const Result<int>& number) {
                if (!number) return refuse(kept, number.error());
                throw std::runtime_error("the number");
            });
        while (story.heard->answers.empty()) {
            story.loop.after(1, [&] { story.loop.stop(); });
            story.loop.run();
        }
        CHECK(story.body().find(on_pool_itself ? "the disk" : "the number") != std::string::npos);
    }
}

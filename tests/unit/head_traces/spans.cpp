// The spans of a run's life, made from the core's decisions.
#include "daemon/head/traces/spans.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "daemon/head/traces/otlp.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

constexpr std::int64_t wall_offset = 1'800'000'000'000;

struct Traced : stories::World {
    std::int64_t looks = 0;  // Each call finds the two clocks a millisecond nearer or farther.
    RunSpans spans{[this](Time time) { return wall_offset + time.ms + looks++ % 2; }, Time{0}};
    std::vector<Span> sent;

    void take(const Decision& decision) {
        Decisions decisions;
        decisions.now = now;
        decisions.by_event.push_back(decision);
        for (Span& span : spans.decided(cluster, decisions)) sent.push_back(std::move(span));
        for (Span& span : spans.durable(cluster, decisions, Time{now.ms + 3})) sent.push_back(std::move(span));
    }
    void happen(const Event& event) { take(tell(event)); }
    const Span& span(const std::string& name, std::size_t which = 0) const {
        for (const Span& one : sent)
            if (one.name == name && which-- == 0) return one;
        FAIL("there is no span " << name);
        return sent.front();
    }
    std::int64_t count(const std::string& name) const {
        return std::ranges::count_if(sent, [&](const Span& one) { return one.name == name; });
    }
};

std::pair<std::int64_t, std::int64_t> times(const Span& span) {
    return {span.begin_wall_ms - wall_offset, span.end_wall_ms - wall_offset};
}

void check_tree(const std::vector<Span>& sent) {
    std::map<std::string, const Span*> by_id;
    for (const Span& span : sent) {
        CHECK(span.trace.size() == 32);
        CHECK(span.id.size() == 16);
        CHECK(by_id.emplace(span.id, &span).second);
        CHECK(span.end_wall_ms >= span.begin_wall_ms);
    }
    for (const Span& span : sent) {
        if (span.name == "run") continue;
        REQUIRE(by_id.contains(span.parent));
        CHECK(by_id.at(span.parent)->trace == span.trace);
        CHECK(by_id.at(span.parent)->begin_wall_ms <= span.begin_wall_ms);
        CHECK(by_id.at(span.parent)->end_wall_ms >= span.end_wall_ms);
    }
}

// Lives through both attempts of a run whose first attempt fails.
void live(Traced& world) {
    world.happen(stories::node("n1"));
    world.now.ms += 1'000;
    world.happen(stories::submission({.name = "job", .max_failures = 1}));
    const RunId run = *world.last.created;
    for (const int attempt : {1, 2}) {
        if (attempt == 2) world.now = *next_wake(world.cluster);
        if (world.attempt(run).state != AttemptState::placed || terminal(world.attempt(run).state))
            world.happen(TimePassed{});
        const Attempt placed = world.attempt(run);
        world.now.ms += 200;
        world.happen(NodePrepared{.attempt = placed.id,
                                  .incarnation = placed.incarnation,
                                  .node = {"n1"},
                                  .claimed_number = placed.id.number,
                                  .from = attempt == 2 ? "checkpoint_000001-a001" : "",
                                  .master_address = "10.0.0.1",
                                  .master_port = 20'000});
        world.now.ms += 300;
        world.happen(WorkerStarted{.attempt = placed.id, .rank = {0}, .pid = 100});
        world.now.ms += 400;
        world.spans.first_report(placed.id);
        world.happen(FirstReport{placed.id});
        world.now.ms += 500;
        world.happen(
            WorkerExited{.attempt = placed.id, .rank = {0}, .cause = stories::exit_code(attempt == 1 ? 1 : 0)});
        world.now.ms += 50;
        world.happen(NodeEmptied{.attempt = placed.id, .node = {"n1"}});
    }
}

}  // namespace

TEST_CASE("a run's life is a tree of spans, with the steps of each attempt") {
    Traced world;
    live(world);
    check_tree(world.sent);
    CHECK(world.count("run") == 1);
    CHECK(world.count("submit") == 1);
    for (const char* each : {"queue", "attempt", "prepare", "start", "first_report"}) {
        CAPTURE(each);
        CHECK(world.count(each) == 2);
    }
    CHECK(world.count("restore") == 1);
    CHECK(times(world.span("submit")) == std::pair<std::int64_t, std::int64_t>{2'000, 2'003});
    CHECK(times(world.span("queue")) == std::pair<std::int64_t, std::int64_t>{2'000, 2'000});
    CHECK(times(world.span("prepare")) == std::pair<std::int64_t, std::int64_t>{2'000, 2'200});
    CHECK(times(world.span("start")) == std::pair<std::int64_t, std::int64_t>{2'200, 2'500});
    CHECK(times(world.span("first_report")) == std::pair<std::int64_t, std::int64_t>{2'500, 2'900});
    CHECK(world.span("attempt").failed);
    CHECK_FALSE(world.span("attempt", 1).failed);
    CHECK_FALSE(world.span("run").failed);
    // The second attempt waited since the first one's end.
    CHECK(world.span("queue", 1).begin_wall_ms == world.span("attempt").end_wall_ms);
    CHECK(world.span("restore").parent == world.span("start", 1).id);
}

TEST_CASE("another head tells the same ids, and nothing of a first report that it may not have seen") {
    Traced first, second;
    second.spans = RunSpans([](Time time) { return wall_offset + time.ms; }, Time{1'000'000});
    live(first);
    live(second);
    CHECK(second.span("run").id == first.span("run").id);
    CHECK(second.span("run").trace == first.span("run").trace);
    CHECK(second.span("attempt", 1).id == first.span("attempt", 1).id);
    CHECK(first.count("first_report") == 2);
    CHECK(second.count("first_report") == 0);
}

TEST_CASE("OTLP's JSON has ids in hexadecimal and times as text") {
    Traced world;
    live(world);
    const auto body = parse_json(otlp_json({.cluster_id = "c0ffee00", .cluster_name = "lab"}, world.sent));
    const auto& resource = body.at("resourceSpans")[0];
    CHECK(resource.at("resource").at("attributes")[0].at("value").at("stringValue") == "rtrain-head");
    const auto& spans = resource.at("scopeSpans")[0].at("spans");
    REQUIRE(spans.size() == world.sent.size());
    CHECK(spans[0].at("name") == "queue");
    CHECK(spans[0].at("startTimeUnixNano") == "1800000002000000000");
    CHECK(spans[0].at("traceId") == world.sent[0].trace);
    CHECK(spans[0].at("parentSpanId") == world.span("run").id);
    CHECK(spans[0].at("attributes")[2].at("value").at("intValue") == "1");
    for (const auto& span : spans) CHECK(span.contains("parentSpanId") == (span.at("name") != "run"));
    CHECK(json_text(body).find("10.0.0.1") == std::string::npos);
}

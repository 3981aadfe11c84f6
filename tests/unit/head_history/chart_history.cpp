// The charts' history beside a journal: it follows the reports, in whatever state its own file is.
#include "daemon/head/history/chart_history.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "storage/history/limits.hpp"
#include "storage/history/store.hpp"
#include "storage/state/journal.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::head;
using nlohmann::json;

namespace {

constexpr RunId run{4};

struct World {
    Folder folder;
    std::unique_ptr<state::SqliteJournal> journal = state::SqliteJournal::open(folder.path).value();
    Cluster cluster;
    std::vector<double> losses;  // by position, from 1

    World() {
        cluster.runs[run].id = run;
        losses.push_back(0);
    }
    // Adds reports. A new attempt begins with `index` 1; it continues where another attempt was, and repeats steps.
    void report(std::uint32_t attempt, std::uint64_t from, std::uint64_t to) {
        state::Batch batch;
        for (std::uint64_t index = from; index <= to; ++index) {
            losses.push_back(static_cast<double>((losses.size() * 7'919) % 1'000) / 8 - static_cast<double>(attempt));
            batch.metrics.push_back({.attempt = {.run = run, .number = attempt},
                                     .index = index,
                                     .wall_ms = static_cast<std::int64_t>(1'000 * losses.size()),
                                     .ranks_json = json_text(json{{"0", {{"loss", losses.back()}, {"ok", true}}},
                                                                  {"1", {{"loss", -1e9}}}})});
        }
        REQUIRE(journal->commit(batch).ok());
    }
    // Opens the history, requests one chart, and ends as a stopped head does, or as a killed one.
    enum class End { stopped, killed };
    json answer_to(const std::string& key, const history::Window& window, End end = End::stopped) {
        net::Loop loop;
        ChartHistory charts(loop, folder.path);
        charts.open(cluster);
        Result<std::string> text = Error{ErrorCode::internal, "no answer", ""};
        REQUIRE(charts.of_run(run, {.subject = {}, .key = key, .window = window, .head = "\"of\":1"},
                              [&](Result<std::string> answer) {
                                  text = std::move(answer);
                                  loop.stop();
                              }));
        loop.run();
        if (end == End::stopped) charts.finish();
        if (!text) FAIL(text.error().message);
        return parse_json(*text);
    }
    // Checks that each point equals the result of a look at all its reports.
    void check(const json& answer, const history::Window& window) const {
        const json& points = answer.at("points");
        const auto per_point = answer.at("reports_per_point").get<std::uint64_t>();
        REQUIRE(points.at("position").size() <= window.points);
        REQUIRE_FALSE(points.at("position").empty());
        for (std::size_t i = 0; i < points.at("position").size(); ++i) {
            const auto from = points["position"][i].get<std::uint64_t>();
            CHECK(from >= 1);  // Positions begin with 1.
            // The first bucket of a level would begin at 0, so it has one report fewer.
            const bool is_last = i + 1 == points.at("position").size();
            const std::uint64_t end = is_last ? from + per_point : points["position"][i + 1].get<std::uint64_t>();
            CHECK((end == from + per_point || (from == 1 && end == per_point)));
            history::Range range;
            for (std::uint64_t at = from; at < end && at < losses.size(); ++at) range.add(losses[at]);
            if (from < window.first || end > window.last + 1) continue;
            if (points["min"][i] != range.least || points["max"][i] != range.greatest)
                FAIL("at " << from << ": " << points["min"][i] << " " << points["max"][i] << ", not " << range.least
                           << " " << range.greatest);
        }
    }
};

constexpr history::Window all{.first = 0, .last = 0, .points = 300};

}  // namespace

TEST_CASE(
    "a chart follows the reports over restarts and kills in the middle of a bucket, and attempts that replay steps") {
    World world;
    const auto look = [&](World::End end) {
        const std::uint64_t last = world.losses.size() - 1;
        const json whole = world.answer_to("loss", all, end);
        CHECK(whole.at("last") == last);
        world.check(whole, {.first = 1, .last = last, .points = 300});
        for (const std::uint64_t from : {std::uint64_t{1}, last / 3, last - last / 10})
            for (const std::uint64_t count : {std::uint64_t{40}, last / 4}) {
                const history::Window window{
                    .first = std::max<std::uint64_t>(1, from), .last = std::min(last, from + count), .points = 100};
                world.check(world.answer_to("loss", window, end), window);
            }
    };
    world.report(1, 1, 3'005);
    look(World::End::killed);
    look(World::End::stopped);
    world.report(1, 3'006, 3'010);
    look(World::End::stopped);
    world.report(2, 2'900, 9'999);
    look(World::End::killed);
    world.report(3, 9'001, 30'000);
    look(World::End::stopped);
    CHECK(world.answer_to("", all).at("keys") == json{"loss", "ok"});
    CHECK(world.answer_to("ok", all).at("points").at("max")[0] == 1);
    CHECK(world.answer_to("other", all).at("points").at("min").empty());
}

TEST_CASE("short stretches are the reports themselves, with their attempts and steps") {
    World world;
    world.report(1, 1, 5'000);
    world.report(2, 4'501, 5'500);
    const json few = world.answer_to("loss", {.first = 4'999, .last = 5'002, .points = 100});
    CHECK(few.at("reports_per_point") == 1);
    CHECK(few.at("points").at("position") == json{4'999, 5'000, 5'001, 5'002});
    CHECK(few.at("points").at("attempt") == json{1, 1, 2, 2});
    CHECK(few.at("points").at("step") == json{4'999, 5'000, 4'501, 4'502});
}

TEST_CASE("a history that is damaged, or knows more than the reports, is made anew of them") {
    World world;
    world.report(1, 1, 2'000);
    const json before = world.answer_to("loss", all);
    const std::string path = world.folder.path + "/" + history::database_name;
    write_to_file(path, std::string(10'000, 'x'));
    CHECK(world.answer_to("loss", all) == before);
    {  // A past that the restored backup does not have.
        auto store = history::Store::open(path).value();
        for (std::uint64_t at = 2'001; at < 9'000; ++at)
            REQUIRE(store
                        .add("run/4", history::Kind::run,
                             {.at = at, .wall_ms = 0, .attempt = 9, .step = at, .values = {{"loss", 1e9}}})
                        .ok());
        REQUIRE(store
                    .add("run/5", history::Kind::run,
                         {.at = 1, .wall_ms = 0, .attempt = 9, .step = 1, .values = {{"loss", 1e9}}})
                    .ok());
        REQUIRE(store.flush(history::Store::Which::all, 0).ok());
    }
    CHECK(world.answer_to("loss", all) == before);
    CHECK(history::Store::open(path).value().subjects(history::Kind::run) == std::vector<std::string>{"run/4"});
}

TEST_CASE("where its file cannot be opened the head goes on, and questions are answered with the reason") {
    World world;
    world.report(1, 1, 10);
    std::filesystem::create_directories(world.folder.path + "/" + history::database_name + "/in the way");
    net::Loop loop;
    ChartHistory charts(loop, world.folder.path);
    charts.open(world.cluster);
    charts.reported(run);
    charts.heard({.node = "n1", .wall_ms = 1, .monotonic_ms = 1, .heartbeat = {}, .workers = {}});
    charts.forget(run);
    std::optional<Error> why;
    REQUIRE(charts.of_run(run, {.subject = {}, .key = "loss", .window = all, .head = "\"of\":1"},
                          [&](const Result<std::string>& answer) {
                              if (!answer) why = answer.error();
                              loop.stop();
                          }));
    loop.run();
    charts.finish();
    REQUIRE(why);
    CHECK(why->code == ErrorCode::unreachable);
    CHECK(why->message.find("history") != std::string::npos);
}

TEST_CASE("one answer has a key of every rank, without those that tell nothing") {
    World world;
    net::Loop loop;
    ChartHistory charts(loop, world.folder.path);
    charts.open(world.cluster);
    const std::int64_t begin_ms = 1'800'000'000'000;
    for (std::int64_t second = 0; second < 64; ++second) {
        HeardHeartbeat heard{.node = "n1",
                             .wall_ms = begin_ms + 1'000 * second,
                             .monotonic_ms = 1'000 * second,
                             .heartbeat = {},
                             .workers = {}};
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
            const std::int64_t interval_ms = rank == 1 ? 0 : 1'000 * (rank + 1);
            heard.heartbeat.workers.push_back({.rank = rank, .interval_ms = interval_ms});
            heard.workers.push_back({rank, {.run = run, .rank = rank, .gpus = {}}});
        }
        charts.heard(std::move(heard));
    }
    loop.after(400, [&] { loop.stop(); });
    loop.run();
    json answer;
    REQUIRE(charts.of_ranks(run, 4,
                            {.subject = {},
                             .key = "report_interval_seconds",
                             .window = {.first = 1'800'000'016, .last = 0, .points = 500},
                             .head = "\"of\":1"},
                            [&](const Result<std::string>& text) {
                                answer = text ? parse_json(*text) : json(text.error().message);
                                loop.stop();
                            }));
    loop.run();
    charts.finish();
    CHECK(answer.at("last") == 1'800'000'063);
    REQUIRE(answer.at("ranks").size() == 2);
    CHECK(answer["ranks"][0].at("rank") == 0);
    CHECK(answer["ranks"][1].at("rank") == 2);
    CHECK(answer["ranks"][1].at("seconds_per_point") == 16);
    const json times = {begin_ms + 16'000, begin_ms + 32'000, begin_ms + 48'000};
    CHECK(answer["ranks"][1].at("points") == json{{"time_ms", times}, {"min", {3, 3, 3}}, {"max", {3, 3, 3}}});
}

TEST_CASE("what nodes and ranks use is kept, goes with the run, and comes back after a restart") {
    World world;
    const std::int64_t begin_ms = 1'800'000'000'000;
    const auto usage_of = [&](ChartHistory& charts, net::Loop& loop, const std::string& subject,
                              std::uint64_t last = 0) {
        json answer;
        REQUIRE(charts.of_usage({.subject = subject,
                                 .key = "memory_bytes",
                                 .window = {.first = 1'800'000'000, .last = last, .points = 500},
                                 .head = "\"of\":1"},
                                [&](const Result<std::string>& text) {
                                    answer = text ? parse_json(*text) : json(text.error().message);
                                    loop.stop();
                                }));
        loop.run();
        return answer;
    };
    {
        net::Loop loop;
        ChartHistory charts(loop, world.folder.path);
        charts.open(world.cluster);
        for (std::int64_t second = 0; second < 3'200; ++second)
            charts.heard({.node = "n1",
                          .wall_ms = begin_ms + 1'000 * second,
                          .monotonic_ms = 1'000 * second,
                          .heartbeat = {.memory_used = second % 100,
                                        .memory_total = 100,
                                        .workers = {{.resident_bytes = 1 + second}}},
                          .workers = {{0, {.run = run, .rank = 0, .gpus = {}}}}});
        loop.after(400, [&] { loop.stop(); });
        loop.run();
        const json points = usage_of(charts, loop, history_of_node("n1")).at("points");
        CHECK(points.at("time_ms").size() == 200);
        CHECK(points.at("time_ms")[0] == begin_ms);
        CHECK(points.at("min")[1] == 16);
        CHECK(points.at("max")[1] == 31);
        // A chart up to the end of time ends with the newest sample.
        const json to_the_end = usage_of(charts, loop, history_of_node("n1"), ~std::uint64_t{0} / 1'000);
        CHECK(to_the_end.at("seconds_per_point") == 16);
        CHECK(to_the_end.at("points") == points);
        charts.finish();
    }
    net::Loop loop;
    ChartHistory charts(loop, world.folder.path);
    charts.open(world.cluster);
    CHECK(usage_of(charts, loop, history_of_node("n1")).at("points").at("max").size() == 200);
    CHECK(usage_of(charts, loop, history_of_rank(run, 0)).at("points").at("max")[199] == 3'200);
    charts.forget(run);
    CHECK(usage_of(charts, loop, history_of_rank(run, 0)).at("points").at("max").empty());
    CHECK(usage_of(charts, loop, history_of_node("n1")).at("points").at("max").size() == 200);
    charts.finish();
}

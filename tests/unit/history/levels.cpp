// Levels compared with a plain look at every sample: the same least and greatest numbers, in whatever pieces the levels
// were made.
#include "storage/history/levels.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <random>

#include "storage/history/columns.hpp"
#include "storage/history/limits.hpp"
#include "storage/history/store.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::history;

namespace {

struct Given {  // a random run: some samples lack some keys, attempts repeat steps
    std::vector<NamedSample> samples;
};

Given random_run(std::mt19937_64& dice, std::size_t count) {
    Given out;
    std::uint64_t at = 0, step = 0;
    std::uint32_t attempt = 1;
    std::normal_distribution<double> value(0, 100);
    for (std::size_t i = 0; i < count; ++i) {
        if (dice() % 500 == 0) ++attempt, step -= std::min<std::uint64_t>(step, dice() % 50);
        NamedSample sample{.at = ++at,
                           .wall_ms = static_cast<std::int64_t>(1'000 + 7 * i),
                           .attempt = attempt,
                           .step = ++step,
                           .values = {}};
        if (dice() % 10 != 0) sample.values.emplace_back("loss", value(dice));
        if (i > count / 2) sample.values.emplace_back("late", std::floor(value(dice)));
        if (dice() % 300 == 0) sample.values.emplace_back("rare", 1.0);
        out.samples.push_back(std::move(sample));
    }
    return out;
}

// Calls `look` with each number of the key from sample `first` to sample `last`.
template <class Look>
void each_number(const Given& given, const std::string& key, std::uint64_t first, std::uint64_t last, Look look) {
    auto sample = std::ranges::lower_bound(given.samples, first, {}, &NamedSample::at);
    for (; sample != given.samples.end() && sample->at <= last; ++sample)
        for (const auto& [name, value] : sample->values)
            if (name == key) look(sample->at, value);
}

// Checks that no number is left out: each lies within the range of a point of its stretch.
void check_whole(const Given& given, const std::string& key, const Window& window, const Series& series) {
    each_number(given, key, window.first, window.last, [&](std::uint64_t at, double value) {
        const auto point =
            std::ranges::lower_bound(series.points, at, {}, &Point::last);  // In order, as check_points verifies.
        if (point == series.points.end() || at < point->first || value < point->range.least ||
            value > point->range.greatest)
            FAIL(key << ": the number of sample " << at << " is in no point");
    });
}

// Checks that every point equals the result of a look at all samples of its stretch.
void check_points(const Given& given, const std::string& key, const Window& window, const Series& series) {
    REQUIRE(series.points.size() <= window.points);
    std::uint64_t next = 0;
    for (const Point& point : series.points) {
        if (point.first < next || point.last < point.first) FAIL("points overlap at " << point.first);
        next = point.last + 1;
        Range range;
        each_number(given, key, point.first, point.last, [&](std::uint64_t, double value) { range.add(value); });
        // A point at the window's edge has whole buckets of the level.
        const bool within = point.first >= window.first && point.last <= window.last;
        if (within && !(range == point.range))
            FAIL(key << " at " << point.first << ": " << point.range.least << " " << point.range.greatest << ", not "
                     << range.least << " " << range.greatest);
    }
    check_whole(given, key, window, series);
}

}  // namespace

TEST_CASE("a bucket has the least and the greatest number of its stretch, wherever the process was cut") {
    for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
        CAPTURE(seed);
        std::mt19937_64 dice(seed);
        Folder folder;
        const std::string path = folder.path + "/history.db";
        const Given given = random_run(dice, 3'000 + dice() % 20'000);
        std::optional<Store> store(Store::open(path).value());
        std::uint64_t flushed = 0;  // samples
        for (std::size_t i = 0; i < given.samples.size(); ++i) {
            REQUIRE(store->add("run/1", Kind::run, given.samples[i]).ok());
            if (dice() % 700 == 0) {
                REQUIRE(store->flush(Store::Which::all, 0).ok());
                flushed = i + 1;
            }
            if (dice() % 3'000 == 0) {  // A crash: samples that were not written are lost, and are added again.
                store.reset();
                store.emplace(Store::open(path).value());
                REQUIRE(store->last("run/1").value() == flushed);
                i = flushed - 1;
            }
        }
        const std::uint64_t last = given.samples.size();
        for (int question = 0; question < 25; ++question) {
            const std::uint64_t from = 1 + dice() % last;
            const Window window{.first = from, .last = from + dice() % (last - from + 1), .points = 5 + dice() % 400};
            for (const char* key : {"loss", "late", "rare"})
                check_points(given, key, window, store->read("run/1", key, window).value());
        }
        CHECK(store->keys("run/1").value() == std::vector<std::string>{"late", "loss", "rare"});
        CHECK(store->read("run/1", "other", {.first = 1, .last = last, .points = 10}).value().points.empty());
    }
}

TEST_CASE("a repeated step counts beside the first one, and a bucket is named by the report that it begins with") {
    Folder folder;
    Store store = Store::open(folder.path + "/history.db").value();
    std::uint64_t at = 0;
    const auto report = [&](std::uint32_t attempt, std::uint64_t step, double loss) {
        REQUIRE(store
                    .add("run/1", Kind::run,
                         {.at = ++at, .wall_ms = 0, .attempt = attempt, .step = step, .values = {{"loss", loss}}})
                    .ok());
    };
    for (std::uint64_t step = 1; step <= 40; ++step) report(1, step, 100.0 - static_cast<double>(step));
    for (std::uint64_t step = 21; step <= 60; ++step) report(2, step, 1'000.0 + static_cast<double>(step));
    const Series series = store.read("run/1", "loss", {.first = 1, .last = 80, .points = 100}).value();
    CHECK(series.samples_per_point == 16);
    REQUIRE(series.points.size() == 6);
    CHECK(series.points[2].mark == Mark{.bucket = 2, .wall_ms = 0, .attempt = 1, .step = 32});
    CHECK(series.points[2].range.least == 60);        // step 40 of the first attempt
    CHECK(series.points[2].range.greatest == 1'027);  // step 27 of the second
    CHECK(series.points[3].mark.step == 28);
}

TEST_CASE("a chunk comes back as it was, and bytes that are none are refused") {
    std::mt19937_64 dice(7);
    std::normal_distribution<double> value(0, 1e-3);
    Chunk chunk;
    chunk.columns.resize(3);
    for (std::uint64_t i = 0; i < 300; ++i) {
        chunk.marks.push_back({.bucket = 70 + 2 * i,
                               .wall_ms = static_cast<std::int64_t>(1'700'000'000'000 + 13 * i),
                               .attempt = static_cast<std::uint32_t>(1 + i / 100),
                               .step = i % 120});
        Range range;
        if (i % 7 != 0) range.add(value(dice)), range.add(value(dice));
        chunk.columns[0].push_back(range);
        if (i < 10) chunk.columns[2].push_back(Range{.least = -0.0, .greatest = 1.5e300});
    }
    const std::string bytes = pack(chunk);
    const Chunk whole = unpack(bytes).value(), one = unpack(bytes, 2).value();
    CHECK(whole.marks == chunk.marks);
    CHECK(one.marks == chunk.marks);
    for (std::size_t i = 0; i < chunk.marks.size(); ++i)
        if (!(whole.range(0, i) == chunk.range(0, i)) || !(one.range(2, i) == chunk.range(2, i)) ||
            !one.range(0, i).empty())
            FAIL("bucket " << i);
    for (int round = 0; round < 2'000; ++round) {
        std::string wrong = bytes;
        if (round % 2 == 0)
            wrong.resize(dice() % wrong.size());
        else
            wrong[dice() % wrong.size()] ^= static_cast<char>(1 + dice() % 255);
        const auto read = unpack(wrong);
        if (read && round % 2 == 0) FAIL("a cut chunk was read");
    }
}

TEST_CASE("the finest level answers that is fine enough to be read, and that reaches back to the window's beginning") {
    const std::vector<std::uint64_t> whole = {0, 0, 0};
    const auto level = [](std::uint64_t first, std::uint64_t last, std::size_t points,
                          const std::vector<std::uint64_t>& begins) {
        return level_for(run_shape, {.first = first, .last = last, .points = points}, begins);
    };
    CHECK(level(1, 100'000, 500, whole) == 0);
    CHECK(level(1, 1'000'000, 500, whole) == 1);
    CHECK(level(1, 100'000'000, 500, whole) == 2);
    const std::vector<std::uint64_t> pruned = {8'000'000, 0, 0};
    CHECK(level(1, 100'000, 500, pruned) == 1);
    CHECK(level(8'100'000, 8'200'000, 500, pruned) == 0);
}

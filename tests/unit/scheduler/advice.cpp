// Slow ranks, growing memory, and the texts about them.
#include "scheduler/goodput/advice.hpp"

#include <cmath>

#include "scheduler/goodput/memory_rise.hpp"
#include "scheduler/goodput/slow_ranks.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;

namespace {

std::vector<std::string> texts(const RunFacts& facts) {
    std::vector<std::string> out;
    for (const Advice& one : advice(facts)) out.push_back(one.text);
    return out;
}
using Texts = std::vector<std::string>;

MemoryHistory sampled(int minutes, const auto& bytes_at) {
    MemoryHistory history;
    for (std::int64_t second = 0; second <= minutes * 60; ++second)
        history.add(1'000 * second, static_cast<std::int64_t>(bytes_at(static_cast<double>(second))));
    return history;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

constexpr double mb = 1e6, gb = 1e9;

}  // namespace

TEST_CASE("the slow rank is the one that waits least, and the others wait for it") {
    const auto slow = slow_ranks({3.2, 3.0, 3.1, 0.1}, 0.5);
    REQUIRE(slow);
    CHECK(slow->ranks == std::vector<std::uint32_t>{3});
    CHECK(near(slow->others_wait, 3.0));
    CHECK(near(slow->mean_wait, 2.25));
}

TEST_CASE("two ranks may be slow; no rank is where all wait alike, or one alone waits long") {
    const auto two = slow_ranks({3, 3, 0, 3, 0}, 0.5);
    REQUIRE(two);
    CHECK(two->ranks == std::vector<std::uint32_t>{2, 4});
    CHECK_FALSE(slow_ranks({3, 3.1, 2.9, 3}, 0.5));
    CHECK_FALSE(slow_ranks({0, 0, 0, 5}, 0.5));
    CHECK_FALSE(slow_ranks({0, 0}, 0));
    CHECK_FALSE(slow_ranks({4}, 0));
    CHECK_FALSE(slow_ranks({}, 0));
}

TEST_CASE("memory that rises by a line is told of, from a minute on") {
    const auto line = [](double second) { return 2 * gb + second * 3 * mb; };
    CHECK_FALSE(memory_rise(sampled(0, line).samples()));
    const auto rise = memory_rise(sampled(3, line).samples());
    REQUIRE(rise);
    CHECK(near(*rise, 3 * mb));
}

TEST_CASE("memory that levels off, swings, rests or rises by little is not told of") {
    CHECK_FALSE(memory_rise(sampled(10, [](double) { return 2 * gb; }).samples()));
    CHECK_FALSE(memory_rise(sampled(10, [](double second) { return gb + std::min(second, 150.0) * mb; }).samples()));
    CHECK_FALSE(
        memory_rise(sampled(10, [](double second) { return 2 * gb + std::fmod(second, 40) * 5 * mb; }).samples()));
    CHECK_FALSE(memory_rise(sampled(10, [](double second) { return 2 * gb + second * 1e4; }).samples()));
    CHECK_FALSE(memory_rise(sampled(10, [](double second) { return 3 * gb - second * mb; }).samples()));
}

TEST_CASE("a long history has few samples, and the newest among them") {
    const MemoryHistory day = sampled(24 * 60, [](double second) { return gb + second; });
    CHECK(day.samples().size() <= 64);
    CHECK(day.samples().back().at_ms > (24 * 60 - 3) * 60'000);
    CHECK(day.samples().back().at_ms - day.samples().front().at_ms > 60 * 60'000);
}

TEST_CASE("what it means and what to do, in words") {
    RunFacts facts{.name = "gpt", .slow = {{.rank = 3, .node = "node-7"}}, .others_wait = 0.31, .rises = {}};
    CHECK(texts(facts) ==
          Texts{"ranks wait 31 % of the time for rank 3 on node-7; see what it does: rtrain stack gpt --rank 3"});
    facts.slow.front().data_share = 0.4;
    facts.data_share = 0.09;
    CHECK(texts(facts) ==
          Texts{"ranks wait 31 % of the time for rank 3 on node-7, which waits for its data 40 % of the "
                "time: look at what its loader reads from node-7"});
    facts = {.name = "gpt",
             .slow = {{.rank = 1, .node = "a"}, {.rank = 2, .node = "b"}, {.rank = 3, .node = "b"}, {.rank = 4}},
             .others_wait = 0.5,
             .rises = {}};
    CHECK(texts(facts) == Texts{"ranks wait 50 % of the time for ranks 1 on a, 2 on b, 3 on b and 1 more; see what it "
                                "does: rtrain stack gpt --rank 1"});
}

TEST_CASE("a loader that is behind, with GPUs and without") {
    RunFacts facts{.name = "gpt", .gpus = true, .data_share = 0.4, .slow = {}, .rises = {}};
    CHECK(texts(facts) == Texts{"GPUs idle 40 % of each step: the loader is behind; more CPUs per worker or prefetch"});
    facts.gpus = false;
    CHECK(texts(facts) ==
          Texts{"workers wait 40 % of each step for data: the loader is behind; more CPUs per worker or prefetch"});
    facts.data_share = 0.05;
    CHECK(texts(facts).empty());
}

TEST_CASE("checkpoints that hold the ranks up") {
    CHECK(texts({.name = "gpt", .checkpoint_share = 0.125, .slow = {}, .rises = {}}) ==
          Texts{"checkpoints hold the ranks up 13 % of the time: write fewer, or set checkpoint.upload: async"});
}

TEST_CASE("memory that runs out, by reports or by minutes; not where nobody can tell when") {
    RunFacts facts{
        .name = "gpt",
        .slow = {},
        .rises = {{.rank = 2, .bytes_per_report = 18 * mb, .bytes_per_minute = 50 * mb, .minutes_left = 40.4}}};
    CHECK(texts(facts) == Texts{"memory of rank 2 rises 18 MB a report: out of memory in about 40 minutes"});
    facts.rises[0].bytes_per_report = 0;
    facts.rises[0].minutes_left = 300;
    CHECK(texts(facts) == Texts{"memory of rank 2 rises 50 MB a minute: out of memory in about 5 hours"});
    facts.rises[0].minutes_left = 3'000;
    CHECK(texts(facts).empty());
    facts.rises[0].minutes_left.reset();
    CHECK(texts(facts).empty());
}

// The waits in heartbeats, and their stored sums.
#include "daemon/head/view/waits.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

constexpr AttemptId attempt_1{.run = {1}, .number = 1};

struct WaitsStory {
    Cluster cluster;
    Waits waits;
    std::int64_t now_ms = 1'000'000;
    std::vector<protocol::WorkerHeartbeat> ranks;

    explicit WaitsStory(std::uint32_t count) {
        Run run;
        run.id = {1};
        run.name = "gpt";
        run.attempts = 1;
        cluster.runs[run.id] = run;
        Attempt attempt;
        attempt.id = attempt_1;
        attempt.incarnation = 9;
        attempt.state = AttemptState::running;
        for (std::uint32_t rank = 0; rank < count; ++rank) {
            Worker worker;
            worker.seat.node = {"n" + std::to_string(rank)};
            attempt.workers.push_back(worker);
            cluster.nodes[worker.seat.node].total = {{"memory", units(1LL << 40)}};
            ranks.push_back({.attempt = {.run = 1, .incarnation = 9, .number = 1},
                             .rank = rank,
                             .data_wait_ms = 0,
                             .barrier_wait_ms = 0,
                             .checkpoint_wait_ms = 0});
        }
        cluster.attempts[attempt.id] = attempt;
    }
    void heartbeat(std::uint32_t rank) {
        protocol::Heartbeat beat{.memory_used = 10LL << 30, .memory_total = 20LL << 30, .workers = {ranks[rank]}};
        waits.take(cluster, {"n" + std::to_string(rank)}, beat, now_ms);
    }
    // Each second, `each` adds the waits of a rank, then its node sends a heartbeat.
    void pass(int seconds, const auto& each) {
        for (int second = 0; second < seconds; ++second) {
            now_ms += 1'000;
            for (protocol::WorkerHeartbeat& rank : ranks) {
                rank.barrier_waits += 10;
                each(rank);
            }
            for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) heartbeat(rank);
        }
    }
    RunFacts facts() const { return waits.facts(cluster, cluster.runs.at({1})); }
};

void two_is_slow(protocol::WorkerHeartbeat& rank) { rank.barrier_wait_ms += rank.rank == 2 ? 10 : 310; }

}  // namespace

TEST_CASE("the others wait for the slow rank, and that is the mean over all ranks") {
    WaitsStory story(4);
    story.pass(31, two_is_slow);
    const RunFacts facts = story.facts();
    REQUIRE(facts.slow.size() == 1);
    CHECK(facts.slow[0].rank == 2);
    CHECK(facts.slow[0].node == "n2");
    CHECK(facts.others_wait > 0.29);
    CHECK(facts.others_wait < 0.31);
    // 3 of 4 ranks lose 300 ms in each of the 30 seconds.
    const std::int64_t lost = story.waits.of(attempt_1).straggler.ms;
    CHECK(lost > 6'000);
    CHECK(lost < 7'000);
}

TEST_CASE("ranks that wait alike have no straggler, nor one that was only heard of earlier") {
    WaitsStory story(2);
    story.pass(30, [](protocol::WorkerHeartbeat& rank) { rank.barrier_wait_ms += 300; });
    CHECK(story.facts().slow.empty());
    CHECK(story.waits.of(attempt_1).straggler == Duration{0});
    // A long wait of both has ended. At the window's end only one rank has reported it.
    for (protocol::WorkerHeartbeat& rank : story.ranks) rank.barrier_wait_ms += 60'000, ++rank.barrier_waits;
    story.now_ms += 4'900;
    story.heartbeat(0);
    story.now_ms += 90;
    story.heartbeat(1);
    CHECK(story.waits.of(attempt_1).straggler == Duration{0});
}

TEST_CASE("data and checkpoints are the mean over the ranks") {
    WaitsStory story(2);
    story.pass(20, [](protocol::WorkerHeartbeat& rank) {
        if (rank.rank == 0) rank.data_wait_ms += 400;
        rank.checkpoint_wait_ms += 150;
    });
    CHECK(story.waits.of(attempt_1) == RankWaits{.checkpoint = {3'000}, .data = {4'000}, .straggler = {}});
    CHECK(story.facts().data_share > 0.19);
    CHECK(story.facts().data_share < 0.21);
}

TEST_CASE("what an attempt came to outlives it and the head; a removed run leaves nothing") {
    WaitsStory story(4);
    story.pass(31, two_is_slow);
    std::map<std::string, std::string> settings;
    story.waits.add_changes(settings, story.now_ms);
    REQUIRE(settings.size() == 1);
    story.pass(5, two_is_slow);
    story.waits.end(attempt_1);
    const RankWaits ended = story.waits.of(attempt_1);
    story.waits.add_changes(settings, story.now_ms);
    Waits next;
    next.recall(settings);
    CHECK(next.of(attempt_1) == ended);
    CHECK(ended.straggler.ms > 6'000);
    CHECK(story.waits.forget({1}) == std::vector<std::string>{"waits/1/1"});
    CHECK(story.waits.of(attempt_1) == RankWaits{});
}

TEST_CASE("the next head goes on from what was kept") {
    WaitsStory story(4);
    story.pass(31, two_is_slow);
    std::map<std::string, std::string> settings;
    story.waits.add_changes(settings, story.now_ms);
    const std::int64_t before = story.waits.of(attempt_1).straggler.ms;
    story.waits = Waits();
    story.waits.recall(settings);
    CHECK(story.waits.of(attempt_1).straggler.ms == before);
    story.pass(11, two_is_slow);
    CHECK(story.waits.of(attempt_1).straggler.ms > before + 2'000);
    CHECK(story.waits.of(attempt_1).straggler.ms < before + 2'500);
}

TEST_CASE("memory that rises is told with what the node has left") {
    WaitsStory story(1);
    story.ranks[0].resident_bytes = 1LL << 30;
    story.ranks[0].interval_ms = 6'000;
    story.pass(120, [](protocol::WorkerHeartbeat& rank) { rank.resident_bytes += 3'000'000; });
    const RunFacts facts = story.facts();
    REQUIRE(facts.rises.size() == 1);
    CHECK(advice(facts).front().text == "memory of rank 0 rises 18 MB a report: out of memory in about 60 minutes");
}

TEST_CASE("an agent may say any number, and speak of ranks that there are not") {
    WaitsStory story(1);
    story.ranks[0].data_wait_ms = story.ranks[0].barrier_wait_ms = INT64_MAX;
    story.ranks[0].checkpoint_wait_ms = INT64_MIN;
    story.ranks[0].resident_bytes = INT64_MAX;
    story.heartbeat(0);
    story.ranks[0].rank = 77;
    story.heartbeat(0);
    CHECK(story.waits.of(attempt_1).data.ms > 0);
    CHECK(story.waits.of(attempt_1).checkpoint.ms == 0);
    CHECK_FALSE(story.waits.seen_ms(attempt_1, Rank{77}));
    CHECK(story.waits.seen_ms(attempt_1, Rank{0}) == story.now_ms);
}

TEST_CASE("a wait in a report counts while it lasts, and the missing ranks are named") {
    WaitsStory story(2);
    story.ranks[0].report_wait_ms = story.ranks[1].report_wait_ms = 0;
    story.pass(2, [](protocol::WorkerHeartbeat&) {});
    const auto rank_0_waits = [](protocol::WorkerHeartbeat& rank) {
        if (rank.rank == 0) rank.report_wait_ms += 1'000, rank.barrier_wait_ms += 1'000;
        rank.barrier_waits = 20;
    };
    story.pass(9, rank_0_waits);
    CHECK_FALSE(story.facts().in_report);
    story.pass(36, rank_0_waits);
    const auto report = story.facts().in_report;
    REQUIRE(report);
    CHECK(report->missing == std::vector<std::uint32_t>{1});
    CHECK(report->waiting == std::vector<std::uint32_t>{0});
    CHECK(report->lasts == Duration{45'000});
    CHECK(advice(story.facts()).front().text ==
          "ranks [1] have not come to report() for 45 s (rank 0 waits); see what they do: rtrain stack gpt --rank 1");
    CHECK(story.waits.of(attempt_1).straggler.ms > 20'000);  // half of it, since rank 1 has not reported
    story.ranks[0].report_wait_ms = 0;
    story.pass(1, [](protocol::WorkerHeartbeat&) {});
    CHECK_FALSE(story.facts().in_report);
}

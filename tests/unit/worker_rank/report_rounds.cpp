// The order of a rank's reports, and the report that has reached the job's `stop`.
#include "runtime/worker/rank/report_rounds.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;
using namespace std::chrono_literals;

namespace {

constexpr Clock::time_point session_start{50s};

Report begun_at(ReportRounds& rounds, Clock::time_point now, std::string metrics = "{}") {
    Report report{.metrics_json = std::move(metrics)};
    rounds.number(report);
    rounds.begin(report, now);
    return report;
}

}  // namespace

TEST_CASE("reports have consecutive numbers, and the newest one is known") {
    ReportRounds rounds(session_start);
    CHECK(rounds.newest() == 0);
    const Report first = begun_at(rounds, session_start);
    CHECK(first.index == 1);
    CHECK(rounds.next() == 2);
    CHECK(rounds.newest() == 1);
    CHECK(rounds.returned() == 0);
    rounds.passed(first);
    rounds.end();
    CHECK(rounds.returned() == 1);
    CHECK_FALSE(rounds.under_way());
    CHECK(rounds.newest() == 1);
}

TEST_CASE("a report that no agent has acknowledged is sent first") {
    ReportRounds rounds(session_start);
    rounds.count_from(7);
    CHECK(rounds.first_to_send() == 7);
    begun_at(rounds, session_start);
    begun_at(rounds, session_start);
    rounds.kept().answered(7);
    CHECK(rounds.first_to_send() == 8);
}

TEST_CASE("the interval is from the end of a report to the begin of the next") {
    ReportRounds rounds(session_start);
    const Report first = begun_at(rounds, session_start + 1s);
    CHECK(rounds.interval_ms() == -1);
    rounds.passed(first);
    rounds.returned_at(session_start + 3s);
    begun_at(rounds, session_start + 5s);
    CHECK(rounds.interval_ms() == 2000);
    CHECK(rounds.ended() == session_start + 3s);
}

TEST_CASE("the report under way has its files but not its metrics") {
    ReportRounds rounds(session_start);
    Report report{.metrics_json = R"({"loss":1})", .checkpoint = StagedFiles{.path = "/stage"}, .upload = Upload::sync};
    rounds.number(report);
    rounds.begin(report, session_start);
    CHECK(rounds.under_way()->checkpoint == report.checkpoint);
    CHECK(rounds.under_way()->metrics_json == "{}");
    CHECK_FALSE(rounds.brings_files());
    rounds.passed(report);
    CHECK(rounds.brings_files());
}

TEST_CASE("the first report that reaches the job's stop is the last one") {
    ReportRounds rounds(session_start);
    rounds.check_stop(begun_at(rounds, session_start, R"({"epoch":9})"));
    CHECK(rounds.stop_after() == 0);
    rounds.stop_at({{"epoch", 3.0}});
    rounds.check_stop(begun_at(rounds, session_start, R"({"epoch":2})"));
    CHECK(rounds.stop_after() == 0);
    rounds.check_stop(begun_at(rounds, session_start, R"({"epoch":3})"));
    rounds.check_stop(begun_at(rounds, session_start, R"({"epoch":4})"));
    CHECK(rounds.stop_after() == 3);
}

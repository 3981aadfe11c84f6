// Tests the sizes that a run leaves in the records when it fails again and again.
#include "scheduler/model/causes.hpp"

#include "scheduler/model/limits.hpp"
#include "tests/unit/scheduler_world.hpp"

using namespace rtrain;
using namespace rtrain::stories;

namespace {

ExitCause failed_with(const std::string& detail) {
    ExitCause cause = exit_code(1);
    cause.detail = detail;
    return cause;
}

// Lets the run's attempt fail with a cause of 256 KiB on each rank, and its next attempt begin.
void fail_with_much(World& world, RunId id, std::size_t workers) {
    world.prepare(id);
    world.start(id);
    for (std::uint32_t rank = 0; rank < workers; ++rank)
        world.exits(id, rank, failed_with("first words " + std::string(limits::cause_bytes - 24, 'x') + " last words."),
                    rank + 1);
    world.empties(id);
    world.pass(10'000);
}

std::size_t bytes_of(const Attempt& attempt) {
    std::size_t bytes = to_text(attempt.cause).size();
    for (const Worker& worker : attempt.workers)
        if (worker.exit) bytes += worker.exit->detail.size();
    return bytes;
}

}  // namespace

TEST_CASE("a long text is cut in its middle, which says so") {
    CHECK(cut_text("short", 100) == "short");
    const std::string cut = cut_text(std::string(1'000, 'a') + std::string(1'000, 'z'), 200);
    CHECK(cut.size() <= 200);
    CHECK(cut.starts_with("aaa"));
    CHECK(cut.ends_with("zzz"));
    CHECK(cut.find("bytes left out") != std::string::npos);
    std::string euros;
    for (int i = 0; i < 100; ++i) euros += "\u20ac";
    for (std::size_t most = 60; most < 120; ++most) {
        std::string characters = cut_text(euros, most);
        CHECK(characters.size() <= most + 4);
        for (std::size_t at = characters.find("\u20ac"); at != std::string::npos; at = characters.find("\u20ac"))
            characters.erase(at, 3);
        CHECK(characters.find('\xe2') == std::string::npos);
        CHECK(characters.find('\x82') == std::string::npos);
    }
}

TEST_CASE("of many failures the newest and the first keep long causes") {
    World world;
    world.nodes(1);
    RunSubmitted job = submission({.workers = 2, .max_failures = 1'000});
    job.spec.failure.backoff_first = job.spec.failure.backoff_last = {1};
    job.spec.failure.backoff_set = true;
    job.spec.failure.avoid_bad_nodes = false;
    world.tell(job);
    const RunId id = *world.last.created;
    constexpr std::uint32_t failures = 40;
    for (std::uint32_t i = 0; i < failures; ++i) fail_with_much(world, id, 2);
    REQUIRE(world.run(id).failures == failures);
    const auto attempt = [&](std::uint32_t number) -> const Attempt& {
        return world.cluster.attempts.at({id, number});
    };
    CHECK(attempt(1).workers[0].exit->detail.size() == limits::cause_bytes);
    CHECK(attempt(failures).workers[0].exit->detail.size() == limits::cause_bytes);
    const std::string& older = attempt(failures - 3).workers[0].exit->detail;
    CHECK(older.size() <= limits::cause_bytes_of_older);
    CHECK(older.starts_with("first words"));
    CHECK(older.ends_with("last words."));
    CHECK(older.find("bytes left out") != std::string::npos);
    CHECK(attempt(2).workers[0].exit->detail.size() <= limits::cause_bytes_of_old);
    std::size_t bytes = 0;
    for (const auto& [number, kept] : world.cluster.attempts) bytes += bytes_of(kept);
    CHECK(bytes < 2'500'000);  // 32 MB if each cause were stored as a whole
}

TEST_CASE("the wait before another attempt has a least value") {
    World world;
    world.nodes(1);
    RunSubmitted job = submission({.max_failures = 1'000});
    job.spec.failure.backoff_first = job.spec.failure.backoff_last = {1};
    job.spec.failure.backoff_set = true;
    job.spec.failure.avoid_bad_nodes = false;
    world.tell(job);
    const RunId id = *world.last.created;
    for (std::uint32_t failure = 1; failure <= limits::failures_of_series + 1; ++failure) {
        world.prepare(id);
        world.start(id);
        world.exits(id, 0, exit_code(1), failure);
        world.empties(id);
        const bool in_series = failure >= limits::failures_of_series;
        CHECK(world.run(id).retry_at - world.now ==
              (in_series ? limits::backoff_least_in_series : limits::backoff_least));
        world.pass(2'000);
    }
}

TEST_CASE("a cause of a quick failure is cut before it is an event") {
    Run run;
    Attempt attempt;
    attempt.workers.resize(64);
    attempt.started_at = {1'000};
    CHECK(cause_bytes_of(run, attempt, {2'000}) == limits::cause_bytes);
    run.failures = limits::failures_whole;
    CHECK(cause_bytes_of(run, attempt, {2'000}) == limits::cause_bytes_of_older);
    CHECK(cause_bytes_of(run, attempt, {1'000 + limits::progress_after.ms}) == limits::cause_bytes);
    attempt.first_failure = Rank{3};
    CHECK(cause_bytes_of(run, attempt, {1'000 + limits::progress_after.ms}) == limits::causes_bytes_of_attempt / 64);
}

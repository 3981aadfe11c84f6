// Tests the counts by user and kind, and the error beyond a limit.
#include "daemon/head/base/user_bytes.hpp"

#include "daemon/head/view/record_bytes.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using head::Kept;
using head::KeptBytes;
using head::UserBytes;

namespace {

UserBytes limited(std::int64_t each) { return UserBytes({.memory = each, .database = each, .files = each}); }

}  // namespace

TEST_CASE("a user's sum is that of the kinds, and a removed run takes its part with it") {
    UserBytes bytes({});
    bytes.begin(RunId{1}, "ann");
    bytes.put(RunId{1}, Kept::runs, {.memory = 100, .database = 200});
    bytes.put(RunId{1}, Kept::attempts, {.memory = 10}, 1);
    bytes.put(RunId{1}, Kept::attempts, {.memory = 30}, 2);
    bytes.put(RunId{1}, Kept::attempts, {.memory = 20}, 1);  // replaces the earlier value
    bytes.add(RunId{1}, Kept::values, {.files = 7});
    bytes.put("ann", Kept::archives, "aa", {.files = 5});
    CHECK(bytes.of("ann").sum == KeptBytes{.memory = 150, .database = 200, .files = 12});
    CHECK(bytes.of("ann").kinds.at(Kept::attempts) == KeptBytes{.memory = 50});
    bytes.forget(RunId{1});
    CHECK(bytes.of("ann").sum == KeptBytes{.files = 5});
    bytes.add(RunId{1}, Kept::values, {.files = 7});  // for a removed run
    bytes.put(RunId{1}, Kept::runs, {.memory = 100});
    CHECK(bytes.of("ann").sum == KeptBytes{.files = 5});
    bytes.forget(Kept::archives, "aa");
    CHECK(bytes.all().empty());
}

TEST_CASE("what would pass a limit is refused, with user, kind, amounts and a way out") {
    UserBytes bytes = limited(4 << 20);
    bytes.add("ann", Kept::archives, {.files = 3 << 20});
    CHECK(bytes.may_add("ann", Kept::values, {.files = 1 << 20}).ok());
    const Status refused = bytes.may_add("ann", Kept::values, {.files = (1 << 20) + 1});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::full);
    CHECK(refused.error().message ==
          "user ann has 3.0 MiB in the head's files (archives 3.0 MiB); 1.0 MiB of values more would pass the limit of "
          "4.0 MiB");
    CHECK(refused.error().next ==
          "remove runs that have ended (rtrain runs rm), or ask an admin for more (rtrain access quota ann)");
    // Each place counts separately.
    CHECK(bytes.may_add("ann", Kept::runs, {.memory = 1 << 20, .database = 1 << 20}).ok());
    CHECK(bytes.may_add("bob", Kept::values, {.files = 4 << 20}).ok());
}

TEST_CASE("a user above a new limit keeps all there is, and cannot add") {
    UserBytes bytes = limited(10);
    bytes.add("ann", Kept::logs, {.files = 8});
    bytes.limit("ann", KeptBytes{.memory = 5, .database = 5, .files = 5});
    CHECK(bytes.of("ann").sum.files == 8);
    CHECK_FALSE(bytes.may_add("ann", Kept::logs, {.files = 1}).ok());
    CHECK(bytes.may_add("ann", Kept::logs, {}).ok());
    CHECK(bytes.may_add("ann", Kept::runs, {.memory = 5}).ok());
    bytes.limit("ann", std::nullopt);
    CHECK(bytes.may_add("ann", Kept::logs, {.files = 2}).ok());
}

TEST_CASE("while only the reserve is left nobody adds anything there") {
    UserBytes bytes = limited(100);
    bytes.no_room(Error{ErrorCode::full, "nearly full", "make room"}, std::nullopt);
    CHECK(bytes.scarce());
    CHECK(bytes.may_add("ann", Kept::values, {.files = 1}).error().message == "nearly full");
    CHECK(bytes.may_add("ann", Kept::runs, {.memory = 1, .database = 1}).ok());
    bytes.no_room(std::nullopt, Error{ErrorCode::full, "no rows", "make room"});
    CHECK(bytes.may_add("ann", Kept::runs, {.memory = 1, .database = 1}).error().message == "no rows");
    bytes.no_room(std::nullopt, std::nullopt);
    CHECK_FALSE(bytes.scarce());
    CHECK(bytes.may_add("ann", Kept::values, {.files = 1}).ok());
}

TEST_CASE("a count made anew takes the place of the one before") {
    UserBytes bytes = limited(100);
    bytes.add("ann", Kept::events, {.database = 8});
    bytes.add("bob", Kept::events, {.database = 9});
    bytes.add("ann", Kept::audit, {.database = 2});
    bytes.clear(Kept::events);
    CHECK(bytes.of("ann").sum == KeptBytes{.database = 2});
    CHECK(bytes.of("bob").sum == KeptBytes{});
}

TEST_CASE("of a gang whose workers ask for unlike things every one counts for its user's memory") {
    UserBytes bytes = limited(0);
    Run gang;
    gang.id = {1};
    gang.user = "ana";
    gang.spec.gang.bundles.resize(100);
    head::follow(bytes, Record(gang));
    const std::int64_t plain = bytes.of("ana").sum.memory;
    for (std::size_t i = 1; i < 100; ++i)
        gang.spec.gang.bundles[i].selector = {{.key = "rack", .values = {std::string(1'000, 'x')}}};
    head::follow(bytes, Record(gang));
    CHECK(bytes.of("ana").sum.memory >= plain + 99 * 1'000);
    head::follow(bytes, Record(EraseRun{{1}}));
    CHECK(bytes.of("ana").sum == KeptBytes{});
}

TEST_CASE("records that were read count as those that were decided one by one") {
    Cluster cluster;
    UserBytes followed = limited(0), read = limited(0);
    Run run;
    run.id = {1};
    run.user = "ana";
    run.job_json = std::string(1'000, 'j');
    Attempt attempt;
    attempt.id = {.run = {1}, .number = 1};
    attempt.workers.resize(4);
    Checkpoint checkpoint;
    checkpoint.run = {1};
    checkpoint.directory = "checkpoint_000001-a001";
    for (const Record& record : {Record(run), Record(attempt), Record(checkpoint)}) {
        head::follow(followed, record);
        apply(cluster, record);
    }
    head::follow(read, cluster);
    CHECK(read.of("ana").kinds == followed.of("ana").kinds);
    CHECK(read.of("ana").kinds.size() == 3);
    head::follow(followed, Record(EraseAttempt{attempt.id}));
    head::follow(followed, Record(EraseCheckpoint{{{1}, checkpoint.directory}}));
    CHECK(followed.of("ana").kinds.size() == 1);
}

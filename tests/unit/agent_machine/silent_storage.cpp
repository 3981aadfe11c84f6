// Stories of a storage that hangs: it neither takes a checkpoint nor refuses it, and training goes on.
#include <set>

#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

Outputs bring_checkpoint(Machine& machine, std::uint64_t index) {
    machine.take(report_with_files(0, index));
    machine.take(report_with_files(1, index));
    return machine.take(StagedListed{.attempt = attempt_1, .index = index, .files = one_file});
}

Outputs stored(Machine& machine, std::uint64_t index) {
    return machine.take(Uploaded{.attempt = attempt_1, .index = index, .files = hashed});
}

// Returns whether both ranks have passed the report.
bool passed(const Outputs& outputs, std::uint64_t index) {
    std::set<std::uint32_t> ranks;
    for (const auto& [rank, frame] : to_workers<worker::Reported>(outputs))
        if (frame.index == index) ranks.insert(rank);
    return ranks.size() == 2;
}

}  // namespace

TEST_CASE("a report waits five seconds for a checkpoint that does not move, later ones do not wait") {
    Machine machine = running();
    bring_checkpoint(machine, 1);
    CHECK_FALSE(passed(bring_checkpoint(machine, 2), 2));
    machine.later(4'999);
    const Outputs silent = machine.later(1);
    CHECK(passed(silent, 2));
    CHECK(news<protocol::Notice>(silent)[0].reason == "storage_unreachable");
    CHECK(all<Upload>(silent).empty());  // the try for report 1 has not ended
    for (std::uint64_t index = 3; index < 50; ++index) {
        const Outputs next = bring_checkpoint(machine, index);
        CHECK(passed(next, index));
        CHECK(all<Upload>(next).empty());
    }
}

TEST_CASE("the newest checkpoint is uploaded once the storage answers, and is waited for again") {
    Machine machine = running();
    bring_checkpoint(machine, 1);
    bring_checkpoint(machine, 2);
    machine.later(5'000);
    bring_checkpoint(machine, 3);
    const Outputs answered = stored(machine, 1);
    REQUIRE(all<Upload>(answered).size() == 1);
    CHECK(all<Upload>(answered)[0].index == 3);
    stored(machine, 3);
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 3});
    REQUIRE(news<protocol::Committed>(written).size() == 1);
    CHECK(news<protocol::Committed>(written)[0].index == 3);
    bring_checkpoint(machine, 4);
    CHECK_FALSE(passed(bring_checkpoint(machine, 5), 5));
}

TEST_CASE("a slow storage gets its time: a checkpoint that moves is never replaced, the patience doubles") {
    Machine machine = running();
    bring_checkpoint(machine, 1);
    bring_checkpoint(machine, 2);
    for (int second = 0; second < 20; ++second) {
        machine.later(1'000);
        CHECK(news<protocol::Notice>(machine.take(UploadMoved{attempt_1, 1, second})).empty());
    }
    machine.later(5'000);
    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .why = "its files are gone", .reason = "storage_failed"});
    CHECK_FALSE(passed(bring_checkpoint(machine, 3), 3));
    CHECK_FALSE(passed(machine.later(9'999), 3));
    CHECK(passed(machine.later(1), 3));
}

TEST_CASE("after a try that had no answer in time no report waits for the next one") {
    Machine machine = running();
    bring_checkpoint(machine, 1);
    machine.later(5'000);
    bring_checkpoint(machine, 2);
    machine.later(20'000);
    const Outputs again =
        machine.take(Uploaded{.attempt = attempt_1, .index = 1, .why = "no answer", .reason = "storage_unreachable"});
    CHECK(all<Upload>(again).size() == 1);
    CHECK(passed(bring_checkpoint(machine, 3), 3));
}

TEST_CASE("a manifest without an answer keeps its files, and the newer checkpoint is committed after it") {
    Machine machine = running();
    bring_checkpoint(machine, 1);
    stored(machine, 1);
    CHECK_FALSE(passed(bring_checkpoint(machine, 2), 2));
    const Outputs late = machine.later(5'000);
    CHECK(passed(late, 2));
    CHECK(all<DropUncommitted>(late).empty());
    REQUIRE(all<Upload>(late).size() == 1);
    CHECK(all<WriteManifest>(stored(machine, 2)).empty());

    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    REQUIRE(news<protocol::Committed>(written).size() == 1);
    CHECK(news<protocol::Committed>(written)[0].index == 1);
    REQUIRE(all<WriteManifest>(written).size() == 1);
    CHECK(all<WriteManifest>(written)[0].manifest.report == 2);
    CHECK(news<protocol::Committed>(machine.take(ManifestWritten{.attempt = attempt_1, .index = 2})).size() == 1);
}

TEST_CASE("a manifest that fails late gives its checkpoint up, since a newer one has begun") {
    Machine machine = running();
    bring_checkpoint(machine, 1);
    stored(machine, 1);
    bring_checkpoint(machine, 2);
    machine.later(5'000);
    const Outputs failed = machine.take(
        ManifestWritten{.attempt = attempt_1, .index = 1, .why = "no answer", .reason = "storage_unreachable"});
    CHECK(all<DropUncommitted>(failed) == std::vector<DropUncommitted>{{attempt_1, "checkpoint_000001-a001"}});
    CHECK(all<WriteManifest>(stored(machine, 2)).size() == 1);
}

TEST_CASE("a name that a silent storage does not claim in five seconds is left out") {
    Machine machine = running();
    machine.state.attempts.begin()->second.local->local_run_path.clear();  // the storage is no directory here
    machine.take(report_with_files(0, 1, "best"));
    const Outputs first = machine.take(report_with_files(1, 1));
    REQUIRE(all<ListStaged>(first).size() == 1);
    CHECK(all<ListStaged>(first)[0].claim);
    const Outputs again = machine.later(5'000);
    REQUIRE(all<ListStaged>(again).size() == 1);
    CHECK_FALSE(all<ListStaged>(again)[0].claim);
    CHECK(passed(machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = one_file}), 1));
}

TEST_CASE("an attempt whose ranks have ended keeps a checkpoint that waits for the end of a try") {
    Machine machine = running();
    bring_checkpoint(machine, 1);
    bring_checkpoint(machine, 2);
    machine.later(5'000);
    machine.take(WorkerEnded{attempt_1, 0, {.exit_code = 0}, 1});
    machine.take(WorkerEnded{attempt_1, 1, {.exit_code = 0}, 1});
    machine.take(LogsDone{attempt_1});
    CHECK(news<protocol::Emptied>(machine.later(120'000)).empty());
    CHECK(all<Upload>(stored(machine, 1)).size() == 1);
}

TEST_CASE("bytes of the try that a last checkpoint waits for keep that checkpoint") {  // sim --yielding --seed 1065
    Machine machine = running();
    bring_checkpoint(machine, 1);
    bring_checkpoint(machine, 2);
    machine.later(5'000);
    machine.take(WorkerEnded{attempt_1, 0, {.exit_code = 0}, 1});
    machine.take(WorkerEnded{attempt_1, 1, {.exit_code = 0}, 1});
    machine.take(LogsDone{attempt_1});
    for (const std::int64_t bytes : {1, 2, 3}) {
        CHECK(news<protocol::Emptied>(machine.later(200'000)).empty());
        machine.take(UploadMoved{attempt_1, 1, bytes});
    }
    CHECK(all<Upload>(stored(machine, 1)).size() == 1);
    CHECK(news<protocol::Emptied>(machine.later(299'000)).empty());  // the next try has its own time
}

TEST_CASE("bytes that leave the node and have no answer do not end the silence") {
    Machine machine = running();
    bring_checkpoint(machine, 1);
    bring_checkpoint(machine, 2);
    machine.later(5'000);
    machine.take(UploadMoved{attempt_1, 1, 0});
    CHECK(passed(bring_checkpoint(machine, 3), 3));
}

TEST_CASE("each checkpoint that is replaced in the same trouble has one notice") {
    Machine machine = running();
    std::vector<std::string> reasons;
    const auto add = [&](const Outputs& out) {
        for (const auto& notice : news<protocol::Notice>(out)) reasons.push_back(notice.reason);
    };
    const auto fails = [&](std::uint64_t index, const std::string& reason) {
        add(machine.take(Uploaded{.attempt = attempt_1, .index = index, .why = "no answer", .reason = reason}));
    };
    for (std::uint64_t index = 1; index <= 3; ++index) {
        add(bring_checkpoint(machine, index));
        fails(index, "storage_unreachable");
    }
    const std::vector<std::string> expected{"storage_unreachable", "checkpoint_replaced", "checkpoint_replaced"};
    CHECK(reasons == expected);
    SECTION("another kind of trouble has a notice of its own") {
        fails(3, "storage_full");
        CHECK(reasons.back() == "storage_full");
    }
    SECTION("a commit ends the trouble") {
        machine.take(Uploaded{.attempt = attempt_1, .index = 3, .files = hashed});
        machine.take(ManifestWritten{.attempt = attempt_1, .index = 3});
        add(bring_checkpoint(machine, 4));
        fails(4, "storage_unreachable");
        CHECK(reasons.size() == expected.size() + 1);
        CHECK(reasons.back() == "storage_unreachable");
    }
}

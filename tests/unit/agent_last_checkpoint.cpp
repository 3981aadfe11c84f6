// An attempt has ended while a checkpoint is on its way, and a part of it may never come: how long its run waits.
#include "daemon/agent/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

const std::vector<protocol::StagedFile> own_file{{.rank = 0, .path = "model.pt", .bytes = 10, .sha256 = "aa"}};
const std::vector<protocol::StagedFile> other_file{{.rank = 1, .path = "more.pt", .bytes = 10, .sha256 = "bb"}};

// Report 1 has passed with files of both nodes; n1 coordinates. Its own part is stored, n2's is not heard of.
Machine waiting_for_n2() {
    Machine machine = running({.nodes = {{0}, {1}}});
    machine.feed(report_with_files(0, 1));
    machine.feed(StagedListed{.attempt = attempt_1, .index = 1, .files = own_file});
    machine.feed(GroupSaid{
        attempt_1, "n2",
        protocol::GroupReport{
            .index = 1, .metrics_json = {{1, "{}"}}, .checkpoint = true, .files = {{.rank = 1, .path = "more.pt"}}}});
    machine.feed(Uploaded{.attempt = attempt_1, .index = 1, .files = own_file});
    return machine;
}

Outputs end_rank_0(Machine& machine) {
    machine.feed(WorkerEnded{attempt_1, 0, {.exit_code = 1}, 1});
    machine.head(protocol::Stop{.attempt = {17, 1, 1}, .why = "rank 0 failed", .end_as = "FAILED"});
    return machine.feed(LogsDone{attempt_1});
}

protocol::Stop alone_now() {
    return {.attempt = {17, 1, 1}, .why = "rank 0 failed", .end_as = "FAILED", .alone = true};
}

}  // namespace

TEST_CASE("once every other node is empty, a part that is missing is given up at once") {
    Machine machine = waiting_for_n2();
    CHECK(news<protocol::Emptied>(end_rank_0(machine)).empty());
    CHECK(news<protocol::Emptied>(machine.later(20'000)).empty());

    CHECK(news<protocol::Emptied>(machine.head(alone_now())).empty());  // what it said last may be on its way
    const Outputs given_up = machine.later(1'000);

    CHECK(news<protocol::Emptied>(given_up).size() == 1);
    CHECK(all<DropUncommitted>(given_up).size() == 1);
    REQUIRE(news<protocol::Notice>(given_up).size() == 1);
    CHECK(news<protocol::Notice>(given_up)[0].text.find("n2") != std::string::npos);
}

TEST_CASE("the last part may overtake or follow the word that its node is empty: the checkpoint counts") {
    Machine machine = waiting_for_n2();
    end_rank_0(machine);
    machine.head(alone_now());
    const Outputs come =
        machine.feed(GroupSaid{attempt_1, "n2", protocol::GroupUploaded{.index = 1, .files = other_file}});
    CHECK(all<WriteManifest>(come).size() == 1);
    CHECK(news<protocol::Emptied>(machine.later(5'000)).empty());  // all parts are here: now storage has its time
    const Outputs written = machine.feed(ManifestWritten{.attempt = attempt_1, .index = 1});
    CHECK(news<protocol::Committed>(written).size() == 1);
    CHECK(news<protocol::Emptied>(written).size() == 1);
}

TEST_CASE("the word that the others are empty comes before the own ranks have ended") {
    Machine machine = waiting_for_n2();
    machine.head(alone_now());
    CHECK(news<protocol::Emptied>(machine.later(5'000)).empty());
    machine.feed(WorkerEnded{attempt_1, 0, {.signal = 15}, 1});
    machine.feed(LogsDone{attempt_1});
    CHECK(news<protocol::Emptied>(machine.later(1'000)).size() == 1);
}

TEST_CASE("a connection that breaks after the end shortens the wait, as one that broke before it") {
    Machine machine = waiting_for_n2();
    end_rank_0(machine);
    machine.later(1'000);
    machine.feed(GroupCut{attempt_1, "n2"});
    CHECK(news<protocol::Emptied>(machine.later(14'000)).empty());
    CHECK(news<protocol::Emptied>(machine.later(1'000)).size() == 1);
}

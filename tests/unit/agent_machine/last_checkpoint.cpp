// An attempt has ended while a checkpoint is under way, and a part of it may never arrive: the time for which its run
// waits.
#include <csignal>

#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

const std::vector<protocol::StagedFile> own_file{{.rank = 0, .path = "model.pt", .bytes = 10, .sha256 = "aa"}};
const std::vector<protocol::StagedFile> other_file{{.rank = 1, .path = "more.pt", .bytes = 10, .sha256 = "bb"}};

// Report 1 has passed with files of both nodes, and n1 coordinates. Its own part is stored; nothing has arrived from
// n2.
Machine waiting_for_n2() {
    Machine machine = running({.nodes = {{0}, {1}}});
    machine.take(report_with_files(0, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = own_file});
    machine.take(PeerMessage{
        attempt_1, "n2",
        protocol::GroupReport{
            .index = 1, .metrics_json = {{1, "{}"}}, .checkpoint = true, .files = {{.rank = 1, .path = "more.pt"}}}});
    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = own_file});
    return machine;
}

Outputs end_rank_0(Machine& machine) {
    machine.take(WorkerEnded{attempt_1, 0, {.exit_code = 1}, 1});
    machine.head(protocol::Stop{.attempt = {17, 1, 1}, .why = "rank 0 failed", .end_as = "FAILED"});
    return machine.take(LogsDone{attempt_1});
}

protocol::Stop alone_now() {
    return {.attempt = {17, 1, 1}, .why = "rank 0 failed", .end_as = "FAILED", .alone = true};
}

}  // namespace

TEST_CASE("once every other node is empty, a part that is missing is given up at once") {
    Machine machine = waiting_for_n2();
    CHECK(news<protocol::Emptied>(end_rank_0(machine)).empty());
    CHECK(news<protocol::Emptied>(machine.later(20'000)).empty());

    CHECK(news<protocol::Emptied>(machine.head(alone_now())).empty());  // its last message may be under way
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
        machine.take(PeerMessage{attempt_1, "n2", protocol::GroupUploaded{.index = 1, .files = other_file}});
    CHECK(all<WriteManifest>(come).size() == 1);
    // All parts are stored; now the time limit of the storage applies.
    CHECK(news<protocol::Emptied>(machine.later(5'000)).empty());
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    CHECK(news<protocol::Committed>(written).size() == 1);
    CHECK(news<protocol::Emptied>(written).size() == 1);
}

TEST_CASE("the word that the others are empty comes before the own ranks have ended") {
    Machine machine = waiting_for_n2();
    machine.head(alone_now());
    CHECK(news<protocol::Emptied>(machine.later(5'000)).empty());
    machine.take(WorkerEnded{attempt_1, 0, {.signal = 15}, 1});
    machine.take(LogsDone{attempt_1});
    CHECK(news<protocol::Emptied>(machine.later(1'000)).size() == 1);
}

TEST_CASE("a connection that breaks after the end shortens the wait, as one that broke before it") {
    Machine machine = waiting_for_n2();
    end_rank_0(machine);
    machine.later(1'000);
    machine.take(GroupCut{attempt_1, "n2"});
    CHECK(news<protocol::Emptied>(machine.later(14'000)).empty());
    CHECK(news<protocol::Emptied>(machine.later(1'000)).size() == 1);
}

namespace {

// Both ranks have ended with 0. Report 1's files of this one node are being stored.
Machine storing() {
    Machine machine = running();
    for (const std::uint32_t rank : {0u, 1u}) machine.take(report_with_files(rank, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = own_file});
    for (const std::uint32_t rank : {0u, 1u}) machine.take(WorkerEnded{attempt_1, rank, {.exit_code = 0}, 1});
    machine.take(LogsDone{attempt_1});
    machine.head(protocol::Stop{.attempt = {17, 1, 1}, .why = "every rank ended with 0", .end_as = "SUCCEEDED"});
    return machine;
}

Outputs moved(Machine& machine, std::int64_t bytes) {
    return machine.take(UploadMoved{.attempt = attempt_1, .index = 1, .bytes = bytes});
}
Outputs breaks_off(Machine& machine) {
    return machine.take(
        Uploaded{.attempt = attempt_1, .index = 1, .why = "no space left on device", .reason = "storage_full"});
}
bool waits(const Outputs& outputs) {
    return news<protocol::Emptied>(outputs).empty() && all<DropStaged>(outputs).empty();
}

}  // namespace

TEST_CASE("a last checkpoint whose upload goes on is waited for, however long it takes") {
    Machine machine = storing();
    for (int minutes = 1; minutes <= 10; ++minutes) {
        CHECK(waits(machine.later(60'000)));
        moved(machine, minutes);
    }
    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = own_file});
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    CHECK(news<protocol::Committed>(written).size() == 1);
    CHECK(news<protocol::Emptied>(written).size() == 1);
}

TEST_CASE("a last checkpoint is given up at once when its user says so") {
    const bool asked_first = GENERATE(true, false);
    Machine machine = asked_first ? running() : storing();
    const protocol::Stop now{.attempt = {17, 1, 1}, .why = "stopped by ana", .end_as = "STOPPED", .at_once = true};
    Outputs given_up;
    if (asked_first) {
        for (const std::uint32_t rank : {0u, 1u}) machine.take(report_with_files(rank, 1));
        machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = own_file});
        const Outputs killed = machine.head(now);
        const auto signals = all<SignalWorker>(killed);
        CHECK_FALSE(signals.empty());
        for (const SignalWorker& one : signals) CHECK(one.signal == SIGKILL);
        for (const std::uint32_t rank : {0u, 1u}) machine.take(WorkerEnded{attempt_1, rank, {.signal = 9}, 1});
        given_up = machine.take(LogsDone{attempt_1});
    } else {
        CHECK(waits(machine.later(60'000)));
        given_up = machine.head(now);
    }
    CHECK(news<protocol::Emptied>(given_up).size() == 1);
}

TEST_CASE("a try that neither moves nor fails is given up after five minutes") {
    Machine machine = storing();
    machine.later(60'000);
    moved(machine, 1);
    CHECK(waits(machine.later(299'999)));
    const Outputs given_up = machine.later(1);
    CHECK(news<protocol::Emptied>(given_up).size() == 1);
    REQUIRE(news<protocol::Notice>(given_up).size() == 1);
    CHECK(news<protocol::Notice>(given_up)[0].reason == "checkpoint_given_up");
}

TEST_CASE("a try that breaks off on its way gives the next one a minute") {
    Machine machine = storing();
    machine.later(100'000);
    moved(machine, 20);
    breaks_off(machine);
    CHECK(waits(machine.later(59'999)));
    CHECK(waits(breaks_off(machine)));  // this try has not moved anything
    CHECK(news<protocol::Emptied>(machine.later(1)).size() == 1);
}

TEST_CASE("tries that come to the same place again and again end, those that come further go on") {
    Machine machine = storing();
    int tries = 0;
    const auto once_more = [&](std::int64_t bytes) {
        Outputs out = machine.later(59'000);  // its backoff is over, so it is tried again
        if (!waits(out)) return false;
        moved(machine, bytes);
        breaks_off(machine);
        ++tries;
        return true;
    };
    for (std::int64_t bytes = 1; bytes <= 20; ++bytes) REQUIRE(once_more(bytes));
    tries = 0;
    while (tries < 20 && once_more(20)) {}
    CHECK(tries == 4);
}

TEST_CASE("while the head is away a last checkpoint is kept; once it is back it is tried at once") {
    Machine machine = storing();
    machine.take(HeadDisconnected{});
    breaks_off(machine);
    for (int i = 0; i < 20; ++i) {
        CHECK(waits(machine.later(60'000)));
        breaks_off(machine);
    }
    machine.connect();
    REQUIRE(next_wake(machine.state).has_value());
    CHECK(*next_wake(machine.state) <= machine.now);
    CHECK(all<Upload>(machine.later(1)).size() == 1);
    breaks_off(machine);
    CHECK(waits(machine.later(59'000)));
    breaks_off(machine);
    CHECK(news<protocol::Emptied>(machine.later(60'000)).size() == 1);
}

TEST_CASE("an agent whose node has left the cluster keeps no checkpoint for a head that will not come") {
    Machine machine = storing();
    breaks_off(machine);
    machine.head(protocol::Refuse{.message = "this node has left the cluster", .left = true});
    machine.take(HeadDisconnected{});
    CHECK(news<protocol::Emptied>(machine.later(60'000)).size() == 1);
}

TEST_CASE("a run that waits for its last checkpoint says so, once") {
    Machine machine = storing();
    const Outputs quick = machine.later(9'999);
    CHECK(news<protocol::Notice>(quick).empty());
    const Outputs sent = machine.later(1);
    REQUIRE(news<protocol::Notice>(sent).size() == 1);
    CHECK(news<protocol::Notice>(sent)[0].reason == "last_checkpoint");
    CHECK(news<protocol::Notice>(sent)[0].text.find("checkpoint_000001-a001") != std::string::npos);
    moved(machine, 1);
    CHECK(news<protocol::Notice>(machine.later(60'000)).empty());
}

TEST_CASE("a part that another node is still storing has no limit here, and is named") {
    Machine machine = waiting_for_n2();
    end_rank_0(machine);
    const Outputs sent = machine.later(10'000);
    REQUIRE(news<protocol::Notice>(sent).size() == 1);
    CHECK(news<protocol::Notice>(sent)[0].text.find("n2 is storing its part") != std::string::npos);
    CHECK(news<protocol::Emptied>(machine.later(600'000)).empty());
    machine.take(PeerMessage{attempt_1, "n2", protocol::GroupUploaded{.index = 1, .files = other_file}});
    const Outputs written = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    CHECK(news<protocol::Committed>(written).size() == 1);
    CHECK(news<protocol::Emptied>(written).size() == 1);
}

namespace {

// This node is not the coordinator's. Its rank has ended, and its part of report 1 is under way.
Machine storing_its_part() {
    Machine machine = running({.nodes = {{0}, {1}}, .here = 1});
    machine.take(GroupConnected{attempt_1});
    machine.take(report_with_files(1, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = other_file});
    machine.take(
        PeerMessage{attempt_1, "", protocol::GroupReleased{.index = 1, .directory = "checkpoint_000001-a001"}});
    machine.take(WorkerEnded{attempt_1, 1, {.exit_code = 0}, 1});
    machine.take(LogsDone{attempt_1});
    machine.head(protocol::Stop{.attempt = {17, 1, 1}, .end_as = "SUCCEEDED"});
    return machine;
}
Outputs part_is_stored(Machine& machine) {
    return machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = other_file});
}
const PeerMessage it_is_committed{attempt_1, "",
                                  protocol::GroupCommitted{.index = 1, .directory = "checkpoint_000001-a001"}};

}  // namespace

TEST_CASE("a node beside the coordinator stores its part in the same patience") {
    Machine machine = storing_its_part();
    for (int minutes = 1; minutes <= 10; ++minutes) {
        CHECK(waits(machine.later(60'000)));
        moved(machine, minutes);
    }
    breaks_off(machine);
    CHECK(news<protocol::Emptied>(machine.later(60'000)).size() == 1);
}

TEST_CASE("a node whose part is stored stays until the coordinator says what became of the checkpoint") {
    Machine machine = storing_its_part();
    CHECK(news<protocol::Emptied>(part_is_stored(machine)).empty());
    CHECK(news<protocol::Emptied>(machine.later(600'000)).empty());  // the other nodes may take as long
    CHECK(news<protocol::Emptied>(machine.take(it_is_committed)).size() == 1);
}

TEST_CASE(
    "a restarted agent whose part is stored before it reaches the coordinator tells it of the part all the same") {
    const Machine before = storing_its_part();
    Machine machine;
    machine.now = before.now;
    machine.take(AttemptFound{.saved = before.state.attempts.at(attempt_1).saved, .workers = {{1, 101}}});
    machine.take(WorkerEnded{attempt_1, 1, {.exit_code = 0}, 1});
    machine.take(LogsDone{attempt_1});
    machine.connect();
    machine.head(protocol::Stop{.attempt = {17, 1, 1}, .end_as = "SUCCEEDED"});
    CHECK(news<protocol::Emptied>(part_is_stored(machine)).empty());

    const auto sent = all<ToGroup>(machine.take(GroupConnected{attempt_1}));
    REQUIRE(sent.size() == 3);  // it joins, and its rank has ended
    CHECK(std::get<protocol::GroupUploaded>(sent[1].message).files == other_file);
    CHECK(news<protocol::Emptied>(machine.take(it_is_committed)).size() == 1);
}

TEST_CASE("a stored part does not wait for a coordinator that cannot be reached, or is gone") {
    Machine machine = storing_its_part();
    CHECK(news<protocol::Emptied>(part_is_stored(machine)).empty());
    const bool cut = GENERATE(true, false);
    if (cut) {
        machine.take(GroupCut{attempt_1, ""});
        CHECK(news<protocol::Emptied>(machine.later(14'999)).empty());
        CHECK(news<protocol::Emptied>(machine.later(1)).size() == 1);
    } else {
        CHECK(news<protocol::Emptied>(machine.head(alone_now())).empty());
        CHECK(news<protocol::Emptied>(machine.later(1'000)).size() == 1);
    }
}

TEST_CASE("a stored part does not wait for ever for a coordinator that is reached and cut again each moment") {
    Machine machine = storing_its_part();
    std::size_t empty = news<protocol::Emptied>(part_is_stored(machine)).size();
    for (int minute = 0; minute < 59; ++minute) {
        machine.take(GroupCut{attempt_1, ""});
        machine.take(GroupConnected{attempt_1});
        empty += news<protocol::Emptied>(machine.later(60'000)).size();
    }
    CHECK(empty == 0);
    CHECK(news<protocol::Emptied>(machine.later(120'000)).size() == 1);
}

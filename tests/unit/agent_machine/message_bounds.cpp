// Stories of what one node may send, and name, to rank 0's node.
#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

TEST_CASE("more files than one message may list leave the report without its checkpoint, and the reason says so") {
    Machine machine = running({.nodes = {{0}, {1, 2}}, .here = 1});
    const auto list = [&](std::uint64_t index, int files) {
        machine.take(report_with_files(1, index));
        machine.take(report_with_files(2, index));
        StagedListed listed{.attempt = attempt_1, .index = index};
        for (int i = 0; i < files; ++i)
            listed.files.push_back({.rank = 1, .path = "shards/" + std::string(60, 's') + std::to_string(i)});
        const auto sent = all<ToGroup>(machine.take(std::move(listed)));
        REQUIRE(sent.size() == 1);
        CHECK(protocol::encode(sent[0].message).size() < 16u << 20);
        return std::get<protocol::GroupReport>(sent[0].message);
    };
    const protocol::GroupReport fits = list(1, 40'000);
    CHECK(fits.files.size() == 40'000);
    CHECK(fits.checkpoint_error.empty());
    protocol::GroupUploaded part{.index = 1, .files = fits.files};
    for (protocol::StagedFile& file : part.files) file.sha256 = std::string(64, 'f');
    CHECK(protocol::encode(protocol::GroupMessage{part}).size() < 16u << 20);

    machine.take(PeerMessage{attempt_1, "", protocol::GroupReleased{.index = 1}});
    const protocol::GroupReport refused = list(2, 120'000);
    CHECK(refused.files.empty());
    CHECK(refused.error_reason == "too_many_files");
    CHECK(refused.checkpoint_error.find("120000 files") != std::string::npos);
}

TEST_CASE("rank 0's own node lists as many files as it has: they cross no link") {
    Machine machine = running();
    machine.take(report_with_files(0, 1));
    machine.take(report_with_files(1, 1));
    StagedListed listed{.attempt = attempt_1, .index = 1};
    for (int i = 0; i < 120'000; ++i)
        listed.files.push_back({.rank = 0, .path = std::string(60, 's') + std::to_string(i)});
    CHECK(all<Upload>(machine.take(std::move(listed))).size() == 1);
}

TEST_CASE("a node that names many reports to come fills no memory of the coordinator") {
    Machine machine = running({.nodes = {{0}, {1}}});
    for (std::uint64_t index = 2; index < 2'000; ++index) {
        machine.take(PeerMessage{attempt_1, "n2", protocol::GroupArrived{.index = index, .ranks = {1}}});
        machine.take(PeerMessage{attempt_1, "n2", protocol::GroupBroadcast{.index = index}});
    }
    const Coordinator& coordinator = *machine.state.attempts.at(attempt_1).coordinator;
    CHECK(coordinator.gathering.size() < 70);
    CHECK(coordinator.broadcast_nodes.size() < 70);
    machine.take(PeerMessage{attempt_1, "n2", protocol::GroupReport{.index = 1, .metrics_json = {{1, "{}"}}}});
    CHECK(to_workers<worker::Reported>(machine.take(report(0, 1))).size() == 1);
}

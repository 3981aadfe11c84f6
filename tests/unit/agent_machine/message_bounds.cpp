// Bounds of the data and names that one node may send to rank 0's node.
#include "daemon/agent/machine/message_bounds.hpp"

#include <limits>

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

namespace {

// Returns the report of ranks 1 and 2 with so many files of one path each, as their node sends it.
protocol::GroupReport sent_with(std::size_t files, const std::string& path) {
    Machine machine = running({.nodes = {{0}, {1, 2}}, .here = 1});
    machine.take(report_with_files(1, 1));
    machine.take(report_with_files(2, 1));
    StagedListed listed{.attempt = attempt_1, .index = 1};
    listed.files.assign(files, {.rank = 1, .path = path});
    const auto sent = all<ToGroup>(machine.take(std::move(listed)));
    REQUIRE(sent.size() == 1);
    CHECK(protocol::encode(sent[0].message).size() < 16u << 20);
    auto report = std::get<protocol::GroupReport>(sent[0].message);
    protocol::GroupUploaded part{.index = 1, .files = report.files};
    for (protocol::StagedFile& file : part.files) {
        file.sha256 = std::string(64, 'f');
        file.bytes = std::numeric_limits<std::int64_t>::max();
        file.rank = std::numeric_limits<std::uint32_t>::max();
    }
    CHECK(protocol::encode(protocol::GroupMessage{part}).size() < 16u << 20);
    return report;
}

}  // namespace

TEST_CASE("the bound holds to the file, also for names that are no UTF-8 and take three bytes for one") {
    const std::string metrics = R"({"loss":1})";  // the metrics of report_with_files
    for (const std::string& path : {std::string(60, 's'), std::string(60, '\xff'), std::string(60, '\x01')}) {
        protocol::GroupReport one{.files = {{.path = path}}};
        const std::size_t of_two_ranks = 2 * encoded_bytes(metrics);
        const std::size_t most = (list_bytes_max - of_two_ranks) / list_bytes(one);
        CAPTURE(static_cast<int>(path[0]), most);
        CHECK(sent_with(most, path).files.size() == most);
        const auto refused = sent_with(most + 1, path);
        CHECK(refused.files.empty());
        CHECK(refused.error_reason == "too_many_files");
    }
}

TEST_CASE("metrics that leave no room for the files are what is named") {
    const std::string metrics = "{\"a\":\"" + std::string(1'000'000, '\x7f') + "\"}";
    protocol::GroupReport report{.files = std::vector<protocol::StagedFile>(1'000, {.path = "f"})};
    for (std::uint32_t rank = 0; rank < 20; ++rank) report.metrics_json[rank] = metrics;
    const auto large = too_large(report);
    REQUIRE(large);
    CHECK(large->reason == "metrics_too_large");
    CHECK(large->message.find("report less metrics") != std::string::npos);
}

TEST_CASE("metrics are kept by what they take in a message too") {
    const std::string odd(1 << 20, '\xff');  // three times as long in a message
    std::map<std::uint32_t, std::string> metrics{{0, odd}, {1, odd}, {2, odd}, {3, odd}, {4, odd}, {5, "{}"}};
    bound_metrics(metrics);
    CHECK(metrics[2] == odd);
    CHECK(metrics[4] == metrics_left_out);
    CHECK(metrics[5] == "{}");
    CHECK(protocol::encode(protocol::GroupMessage{protocol::GroupReport{.metrics_json = metrics}}).size() < 16u << 20);
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

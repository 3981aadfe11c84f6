// Conditions under which this node's part of a checkpoint stays on it for the next attempt.
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

// Both ranks report with files, and these are listed.
Outputs both_report(Machine& machine, std::uint64_t index) {
    machine.take(report_with_files(0, index));
    machine.take(report_with_files(1, index));
    return machine.take(StagedListed{.attempt = attempt_1, .index = index, .files = one_file});
}

}  // namespace

TEST_CASE("of a storage that is no directory here, this node's part of a committed checkpoint is kept; no other is") {
    Machine machine = running();
    std::string& path = machine.state.attempts.at(attempt_1).saved.local_run_path;
    const bool mounted = GENERATE(false, true);
    if (!mounted) path.clear();

    both_report(machine, 1);
    CHECK(all<KeepCommitted>(machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = hashed})).empty());
    const Outputs committed = machine.take(ManifestWritten{.attempt = attempt_1, .index = 1});
    CHECK(all<KeepCommitted>(committed) ==
          (mounted ? std::vector<KeepCommitted>{} : std::vector<KeepCommitted>{{attempt_1, 1}}));

    both_report(machine, 2);
    machine.take(Uploaded{.attempt = attempt_1, .index = 2, .why = "no answer from s3"});
    CHECK(all<KeepCommitted>(both_report(machine, 3)).empty());  // 2 is given up
}

TEST_CASE("another node keeps its part when it hears of the commit") {
    Machine machine = running({.nodes = {{0}, {1}}, .here = 1});
    machine.state.attempts.at(attempt_1).saved.local_run_path.clear();
    machine.take(report_with_files(1, 1));
    machine.take(StagedListed{.attempt = attempt_1, .index = 1, .files = {{.rank = 1, .path = "b", .bytes = 1}}});
    const std::string directory = "checkpoint_000001-a001";
    machine.take(PeerMessage{attempt_1, "", protocol::GroupReleased{.index = 1, .directory = directory}});
    machine.take(Uploaded{.attempt = attempt_1, .index = 1, .files = {{1, "b", 1, "bb"}}});
    const bool committed = GENERATE(true, false);
    const protocol::GroupCommitted news{.index = 1, .directory = committed ? directory : ""};
    CHECK(all<KeepCommitted>(machine.take(PeerMessage{attempt_1, "", news})).size() == (committed ? 1 : 0));
}

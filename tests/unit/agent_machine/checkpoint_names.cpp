// The names of checkpoints whose files are in the run's directory already.
#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

TEST_CASE(
    "files that lie in the run already name the checkpoint, whichever rank brings them and whatever rank 0 wishes") {
    Machine own = running();
    own.take(report_with_files(0, 1, "best"));
    own.take(report_with_files(1, 1));
    StagedListed listed{attempt_1, 1, one_file, "", "", true};
    listed.in_place = "placed-1-a001";
    CHECK(all<Upload>(own.take(listed)).at(0).directory == "placed-1-a001");
    Machine machine = running({.nodes = {{0}, {1}}});
    machine.take(report_with_files(0, 1, "best"));
    machine.take(StagedListed{attempt_1, 1, one_file, "", "", true});
    const protocol::GroupReport others{
        .index = 1, .metrics_json = {{1, "{}"}}, .checkpoint = true, .directory_name = "placed", .exact = true};
    const Outputs out = machine.take(PeerMessage{attempt_1, "n2", others});
    REQUIRE(all<Upload>(out).size() == 1);
    CHECK(all<Upload>(out)[0].directory == "placed");
    Machine other = running({.nodes = {{0}, {1}}});
    other.take(report_with_files(0, 1));
    other.take(StagedListed{attempt_1, 1, one_file, "", "", true});
    protocol::GroupReport forged = others;
    forged.directory_name = "../other";
    CHECK(all<Upload>(other.take(PeerMessage{attempt_1, "n2", forged})).at(0).directory == "checkpoint_000001-a001");
}

namespace {

// Returns the name of the checkpoint that node n2 reports in place.
std::string called(const std::string& place, bool node_takes_deeper) {
    Machine machine = running({.nodes = {{0}, {1}}});
    machine.take(report_with_files(0, 1));
    machine.take(StagedListed{attempt_1, 1, one_file, "", "", true});
    const protocol::GroupReport report{.index = 1,
                                       .metrics_json = {{1, "{}"}},
                                       .checkpoint = true,
                                       .directory_name = place,
                                       .exact = true,
                                       .deeper = node_takes_deeper};
    return all<Upload>(machine.take(PeerMessage{attempt_1, "n2", report})).at(0).directory;
}

}  // namespace

TEST_CASE("a directory deeper in the run has its path as its name, if every node takes it") {
    CHECK(called("epochs/3", true) == "epochs/3");
    CHECK(called("epochs/3-a001/ckpt", true) == "epochs/3-a001/ckpt");
    CHECK(called("epochs/3", false) == "epochs_3-a001");  // its agent refuses messages about a path
    for (const char* forged : {"../other", "epochs/../../other", "attempts/000001", "/etc", "epochs//3", "x-a001/deep",
                               "epochs/.hidden", "a/b/c/d/e/f/g/h/i"})
        CHECK(called(forged, true) == "checkpoint_000001-a001");
    Machine own = running();
    own.take(report_with_files(0, 1, "best"));
    own.take(report_with_files(1, 1));
    StagedListed listed{attempt_1, 1, one_file, "", "", true};
    listed.in_place = "epochs/1";
    CHECK(all<Upload>(own.take(listed)).at(0).directory == "epochs/1");
}

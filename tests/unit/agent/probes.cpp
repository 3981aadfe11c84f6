// Detects whether the nodes of an attempt share its storage path.
#include <fstream>

#include "daemon/agent/preparation/preparation.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

// n1 and n2 on one path. n1 has written its probe file at second 100, and no process listens at n2's address.
struct ProbeStory {
    Folder folder;
    AttemptContext context;
    NodeFacts facts{.files = {}, .node = "n1", .inherited = {}, .head = {}, .on_head = {}};
    ProbeWait wait{.since_ms = 100'000};
    std::string nodes = folder.path + "/digits/.staging/1/nodes";
    ProbeStory() {
        context.prepare = prepare_order({.nodes = {{0}, {1}}});
        for (protocol::PeerNode& peer : context.prepare.nodes) {
            peer.address = "127.0.0.1";
            peer.port = 1;
        }
        context.prepare.storage_path = folder.path;
        auto store = storage::open_file_store(folder.path);
        REQUIRE(store);
        context.store = std::move(*store);
        REQUIRE(make_directory(nodes, 0755));
        written_by("n1");
    }
    void written_by(const std::string& node) const { std::ofstream(nodes + "/" + node) << node; }
    ProbeVerdict look_at(std::int64_t second) {
        wait = look_for_probes(context, facts, wait, second * 1'000);
        return verdict(wait);
    }
};

}  // namespace

TEST_CASE("a node whose probe file comes late is waited for, and does not end the run") {
    ProbeStory story;
    CHECK(story.look_at(100) == ProbeVerdict::look_again);
    CHECK(story.wait.missing == "n2");
    CHECK(story.look_at(159) == ProbeVerdict::look_again);
    CHECK_FALSE(story.wait.written_ms);
    story.written_by("n2");
    CHECK(story.look_at(160) == ProbeVerdict::look_again);
    CHECK(story.wait.missing == "");
}

TEST_CASE("a node that does not get round to it fails the attempt, which is tried again") {
    ProbeStory story;
    CHECK(story.look_at(160) == ProbeVerdict::late);
    const Trouble trouble = trouble_of(story.wait, story.context, "n1");
    CHECK_FALSE(trouble.permanent);
    CHECK(trouble.why.find("n1 has waited 60 s for n2 to try the storage path " + story.folder.path) == 0);
}

TEST_CASE("a path is not shared when a file stays unseen that its writer says it has written") {
    ProbeStory story;
    story.look_at(140);
    story.wait.written_ms = 140'000;
    CHECK(story.look_at(154) == ProbeVerdict::look_again);
    CHECK(story.look_at(155) == ProbeVerdict::not_shared);
    const Trouble trouble = trouble_of(story.wait, story.context, "n1");
    CHECK(trouble.permanent);
    CHECK(trouble.why.find("the path is not shared between the nodes") != std::string::npos);
}

TEST_CASE("runs on one node or in no directory need no probe files of others") {
    ProbeStory story;
    story.context.prepare.nodes.pop_back();
    story.look_at(100);
    CHECK(story.wait.missing == "");
}

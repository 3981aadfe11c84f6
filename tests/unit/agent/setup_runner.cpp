// Decides which setups of a node run at the same time.
#include "daemon/agent/preparation/setup_runner.hpp"

#include <fstream>
#include <map>

#include "daemon/agent/base/limits.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/run_until.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

struct RunnerStory {
    Folder folder;
    net::Loop loop;
    std::map<std::uint64_t, std::string> ended;  // by run: the reason of a failure; empty after success
    SetupBounds bounds{};
    SetupShares shares{};
    SetupRunner runner{loop, folder.path + "/setups", [this] { return bounds; }, shares};

    void begin(std::uint64_t run, const std::string& user, const std::string& command) {
        SetupOrder order{.attempt = {run, 1},
                         .token_user = user,
                         .command = command,
                         .interpreter = "no-such-python",
                         .inherited = {{"PATH", "/usr/bin:/bin"}},
                         .log_file = folder.path + "/log-" + std::to_string(run)};
        runner.run(std::move(order), [this, run](const SetupResult& result) { ended[run] = result.why; });
    }
    bool until(const std::function<bool()>& condition) { return rtrain::test::run_until(loop, condition); }
    std::string counted() const {
        const auto text = read_whole(folder.path + "/count");
        return text ? *text : "";
    }
};

}  // namespace

TEST_CASE("a setup that hangs holds up its own user's next one alone") {
    RunnerStory story;
    story.begin(1, "ana", "sleep 600");
    story.begin(2, "ana", "true");
    story.begin(3, "bob", "true");
    REQUIRE(story.until([&] { return story.ended.contains(3); }));
    CHECK(story.ended[3].empty());
    CHECK_FALSE(story.ended.contains(2));
    story.runner.cancel({1, 1});
    REQUIRE(story.until([&] { return story.ended.contains(2); }));
    CHECK(story.ended[1].find("was given up") != std::string::npos);
    CHECK(story.ended[2].empty());
}

TEST_CASE("a setup that waits for its turn ends at once when it is given up") {
    RunnerStory story;
    story.begin(1, "ana", "sleep 600");
    story.begin(2, "ana", "true");
    story.runner.cancel({2, 1});
    REQUIRE(story.until([&] { return story.ended.contains(2); }));
    CHECK(story.ended[2] == "was given up before it began");
    CHECK_FALSE(story.ended.contains(1));
}

TEST_CASE("the number of setups at once is bounded, and the next one follows") {
    RunnerStory story;
    for (std::uint64_t run = 1; run <= limits::setups_at_once; ++run)
        story.begin(run, "user-" + std::to_string(run), "sleep 600 # " + std::to_string(run));
    story.begin(100, "zoe", "true");
    bool waited = false;
    story.loop.after(300, [&] { waited = true; });
    REQUIRE(story.until([&] { return waited; }));
    CHECK(story.ended.empty());
    story.runner.cancel({1, 1});
    REQUIRE(story.until([&] { return story.ended.contains(100); }));
    CHECK(story.ended[100].empty());
}

TEST_CASE("two users who ask for the same setup get one, made once") {
    RunnerStory story;
    const std::string command = "echo x >> " + story.folder.path + "/count; sleep 0.2";
    story.begin(1, "ana", command);
    story.begin(2, "bob", command);
    REQUIRE(story.until([&] { return story.ended.size() == 2; }));
    CHECK(story.ended[1] + story.ended[2] == "");
    CHECK(story.counted() == "x\n");
}

TEST_CASE("a setup that makes more than there is room for is ended, and what it made is removed") {
    RunnerStory story;
    story.bounds.bytes_most = 1 << 20;
    story.begin(1, "ana", "dd if=/dev/zero of=large bs=1M count=3 2> /dev/null; sleep 600");
    REQUIRE(story.until([&] { return story.ended.contains(1); }));
    CHECK(story.ended[1].find("has made more than 1 MiB") != std::string::npos);
    CHECK(std::filesystem::is_empty(story.folder.path + "/setups"));
}

TEST_CASE("setups that hang give their places to users who wait") {
    RunnerStory story{.shares = {.at_once = 2, .most = 3, .share_ms = 300}};
    for (std::uint64_t run = 1; run <= 2; ++run)
        story.begin(run, "user-" + std::to_string(run), "sleep 600 # " + std::to_string(run));
    story.begin(3, "zoe", "sleep 600 # 3");
    bool waited = false;
    story.loop.after(100, [&] { waited = true; });
    REQUIRE(story.until([&] { return waited; }));
    CHECK(story.ended.empty());
    story.begin(4, "yan", "true");  // zoe's setup takes the third place, and the oldest of three ends for this one
    REQUIRE(story.until([&] { return story.ended.contains(4); }));
    CHECK(story.ended[4].empty());
    REQUIRE(story.ended.contains(1));
    CHECK(story.ended[1].find("3 setups run on this node, and other users wait") != std::string::npos);
    CHECK_FALSE(story.ended.contains(2));
    CHECK_FALSE(story.ended.contains(3));
}

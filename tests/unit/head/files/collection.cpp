// Removal of the code of ended runs and of the settings of removed ones; and the times of lines.
#include <sys/stat.h>
#include <sys/time.h>

#include <fstream>

#include "base/json_text.hpp"
#include "storage/state/journal.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

std::string blob(const HeadUnderTest& head, const std::string& folder, const std::string& bytes) {
    const std::string sha256 = security::sha256_hex(bytes), file = folder + "/upload";
    std::ofstream(file) << bytes;
    REQUIRE(HeadUnderTest::send(head.endpoint(head.admin),
                                {.method = "PUT", .target = "/v1/blobs/" + sha256, .body_file = file})
                .status == 201);
    return sha256;
}

void make_old(const std::string& path) {
    const timeval long_ago[2] = {{1'000'000, 0}, {1'000'000, 0}};
    REQUIRE(::utimes(path.c_str(), long_ago) == 0);
}

bool there(const std::string& path) { return std::filesystem::exists(path); }

}  // namespace

TEST_CASE("old code of ended runs goes, that of live ones and what was just uploaded stays") {
    const TemporaryFolder folder;
    std::string ended, live, fresh, admin;
    const auto path = [&](const std::string& sha256) { return folder.path + "/blobs/" + sha256; };
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        ended = blob(head, folder.path, "ended");
        live = blob(head, folder.path, "live");
        fresh = blob(head, folder.path, "fresh");
        REQUIRE(head.call("POST", "/v1/runs", {{"job", job("a")}, {"key", "ka"}, {"code_sha256", ended}}).status ==
                201);
        REQUIRE(head.call("POST", "/v1/runs", {{"job", job("b")}, {"key", "kb"}, {"code_sha256", live}}).status == 201);
        head.call("POST", "/v1/runs/a/stop");
        REQUIRE(eventually([&] { return state_of(head, "a") == "STOPPED"; }));
        make_old(path(ended));
        make_old(path(live));
    }
    {
        HeadUnderTest head({.data_dir = folder.path});
        head.admin = admin;
        CHECK(eventually([&] { return !there(path(ended)); }));
        CHECK(there(path(live)));
        CHECK(there(path(fresh)));
        REQUIRE(head.call("DELETE", "/v1/runs/a").status == 200);
    }
    {
        HeadUnderTest head({.data_dir = folder.path});
        head.admin = admin;
        CHECK(state_of(head, "b") == "QUEUED");
    }
    const auto journal = state::SqliteJournal::open(folder.path).value();
    const std::string kept = "code/user-key-" + security::sha256_hex("admin\nkb");
    CHECK(journal->settings("code/") == std::map<std::string, std::string>{{kept, live}});
}

TEST_CASE("lines carry the time at which the node saw them; a clock that runs ahead is not believed") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    HandMadeAgent agent(join(head, "n1"), "n1");
    agent.register_node();
    REQUIRE(head.call("POST", "/v1/runs", {{"job", job("timed")}}).status == 201);
    const auto attempt = start_attempt(agent, 1);
    agent.say(
        protocol::LogChunk{.attempt = attempt, .stream = "out", .bytes = "early\n", .wall_ms = 1'600'000'000'000});
    agent.say(protocol::LogChunk{
        .attempt = attempt, .stream = "out", .offset = 6, .bytes = "ahead\n", .wall_ms = 9'999'999'999'999});
    CHECK(eventually([&] { return agent.expect<protocol::LogAck>().offset == 12; }));
    end_well(agent, attempt, 1);
    REQUIRE(eventually([&] { return state_of(head, "timed") == "SUCCEEDED"; }));
    const std::string lines = head.call("GET", "/v1/runs/timed/logs").text;
    const json early = parse_json(lines.substr(0, lines.find('\n')));
    CHECK(early["time"] == "2020-09-13T12:26:40.000Z");
    CHECK(lines.find("2286-") == std::string::npos);
}

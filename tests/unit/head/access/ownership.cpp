// Runs of one user and requests of another: resuming from them, removing them, and reading their files.
#include <fstream>

#include "storage/state/journal.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

namespace fs = std::filesystem;

// Ann's ended run, with its directory on the head's storage.
struct OwnershipStory {
    explicit OwnershipStory(const std::string& storage_path = "cluster://") {
        json digits = job("digits");
        if (storage_path != "cluster://") digits["storage_path"] = storage_path;
        const Answer made = head.call_as(ann, "POST", "/v1/runs", {{"job", digits}});
        REQUIRE(made.status == 201);
        run = made.body["run_id"];
        head.call_as(ann, "POST", "/v1/runs/digits/stop");
        REQUIRE(eventually([&] { return state_of(head, run) == "STOPPED"; }));
        place = folder.path + "/storage/digits";
        fs::create_directories(place);
        std::ofstream(place + "/run.json")
            << json{{"cluster_id", head.started.cluster_id}, {"run_id", run}, {"user", "ann"}};
    }
    Answer resume(const std::string& token, json job) {
        return head.call_as(token, "POST", "/v1/runs", {{"job", std::move(job)}, {"resume", true}});
    }
    TemporaryFolder folder;
    HeadUnderTest head{{.data_dir = folder.path}};
    std::string ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
    std::string run, place;
};

}  // namespace

TEST_CASE("only its user and admins go on from a run's files, however the storage path is written") {
    OwnershipStory story;
    for (const char* path : {"", "cluster://", "cluster://elsewhere"}) {
        json theirs = job("digits");
        if (*path != 0) theirs["storage_path"] = path;
        INFO(path);
        const Answer refused = story.resume(story.bob, theirs);
        CHECK(refused.status == 403);
        CHECK((says(refused, "ann's, not bob's") && says(refused, "ask ann or an admin")));
        CHECK(story.head
                  .call_as(story.bob, "POST", "/v1/plan", {{"job", theirs}, {"resume", true}, {"as_submitted", true}})
                  .status == 403);
    }
    CHECK(story.resume(story.ann, job("digits")).status == 201);
}

TEST_CASE("a directory that no record knows is its run.json's user's") {
    OwnershipStory story;
    REQUIRE(story.head.call_as(story.ann, "DELETE", "/v1/runs/digits").status == 200);
    CHECK(story.resume(story.bob, job("digits")).status == 403);
    std::ofstream(story.place + "/run.json") << "{}";
    CHECK(says(story.resume(story.ann, job("digits")), "nobody's"));
    CHECK(story.resume(story.head.admin, job("digits")).status == 201);
}

TEST_CASE("a run's directory that is a link is nobody's: its user is not told by what the link leads to") {
    OwnershipStory story;
    REQUIRE(story.head.call_as(story.ann, "DELETE", "/v1/runs/digits").status == 200);
    fs::rename(story.place, story.folder.path + "/elsewhere");
    fs::create_directory_symlink(story.folder.path + "/elsewhere", story.place);
    CHECK(story.resume(story.ann, job("digits")).status == 403);
}

TEST_CASE("a run that went on from another user's files cannot remove them") {
    OwnershipStory story("/nowhere/at/all");
    json theirs = job("digits");
    theirs["storage_path"] = "/nowhere/./at/all";
    CHECK(story.resume(story.bob, theirs).status == 403);
    theirs["storage_path"] = "/nowhere/linked";  // the same directory for the agents, but the head cannot find that out
    const Answer made = story.resume(story.bob, theirs);
    REQUIRE(made.status == 201);
    HandMadeAgent agent(join(story.head, "n1"), "n1");
    agent.register_node();
    const auto prepare = agent.expect<protocol::Prepare>();
    CHECK((prepare.user == "bob" && prepare.resume && !prepare.any_user));
    agent.tell(protocol::PrepareFailed{.attempt = prepare.attempt, .why = "it is ann's", .permanent = true});
    agent.tell(protocol::Emptied{prepare.attempt});
    const std::string id = made.body["run_id"];
    REQUIRE(eventually([&] { return state_of(story.head, id) == "FAILED"; }));
    net::Client client(story.head.endpoint(story.bob));
    auto answer = std::async(std::launch::async, [&] {
        return client.call({.method = "DELETE", .target = "/v1/runs/" + id + "?files=true"});
    });
    const auto order = agent.expect<protocol::Clear>();
    CHECK(order.user == "bob");
    agent.say(protocol::Cleared{.id = order.id, .removed = false});
    CHECK(answer.get().ok());
}

TEST_CASE("an agent is told when an admin goes on from a run's files: they may be anybody's") {
    OwnershipStory story;
    HandMadeAgent agent(join(story.head, "n1"), "n1");
    agent.register_node();
    REQUIRE(story.resume(story.head.admin, job("digits")).status == 201);
    CHECK(agent.expect<protocol::Prepare>().any_user);
}

TEST_CASE("files that two users' runs have shared are removed by an admin alone") {
    OwnershipStory story;
    REQUIRE(story.resume(story.head.admin, job("digits")).status == 201);
    story.head.call("POST", "/v1/runs/digits/stop");
    REQUIRE(eventually([&] { return state_of(story.head, "digits") == "STOPPED"; }));
    const std::string target = "/v1/runs/" + story.run + "?files=true";
    CHECK(story.head.call_as(story.ann, "DELETE", target).status == 403);
    CHECK(fs::exists(story.place + "/run.json"));
    CHECK(story.head.call("DELETE", "/v1/runs/digits?files=true").status == 200);
    CHECK_FALSE(fs::exists(story.place));
}

TEST_CASE("of an older database, blobs are theirs whose runs name them, and keys are found as they were sent") {
    const TemporaryFolder folder;
    const std::string code = "the code of ann", sha256 = security::sha256_hex(code), blob = "/v1/blobs/" + sha256;
    std::string admin, ann, bob, run;
    const auto head_blob = [&](const HeadUnderTest& head, const std::string& token) {
        return HeadUnderTest::send(head.endpoint(token), {.method = "HEAD", .target = blob}).status;
    };
    const auto submit = [&](const HeadUnderTest& head, const std::string& token) {
        return head.call_as(token, "POST", "/v1/runs", {{"job", job("old")}, {"key", "k"}, {"code_sha256", sha256}});
    };
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin, ann = head.make_token("user", "ann"), bob = head.make_token("user", "bob");
        const net::Call upload{.method = "PUT", .target = blob, .body = code};
        REQUIRE(HeadUnderTest::send(head.endpoint(ann), upload).status == 201);
        CHECK((head_blob(head, ann) == 200 && head_blob(head, bob) == 404));
        CHECK(says(submit(head, bob), "was not uploaded"));
        const Answer made = submit(head, ann);
        REQUIRE(made.status == 201);
        run = made.body["run_id"];
    }
    {
        const auto journal = state::SqliteJournal::open(folder.path).value();
        Run old = journal->opened().runs.begin()->second;
        state::Batch batch;
        batch.settings["code/k"] = sha256;
        old.submit_key = "k";
        state::Entry& entry = batch.entries.emplace_back();
        entry.event = TimePassed{};
        entry.records = {old};
        REQUIRE(journal->commit(batch).ok());
        REQUIRE(journal->erase_settings({"blob_users_known", "blob/" + sha256 + "/ann"}).ok());
    }
    HeadUnderTest head({.data_dir = folder.path});
    head.admin = admin;
    CHECK((head_blob(head, ann) == 200 && head_blob(head, bob) == 404));
    const Answer again = submit(head, ann);
    CHECK((again.status == 200 && again.body["run_id"] == run));
}

TEST_CASE("nobody joins the job array of another user") {
    OwnershipStory story;
    REQUIRE(story.head.call_as(story.ann, "POST", "/v1/runs", {{"job", job("grid")}, {"array", "1-2"}}).status == 201);
    json theirs = job("grid-2");
    theirs["storage_path"] = "/nowhere/at/all";
    const json member = {{"array", "grid"}, {"index", 2}};
    const auto submit = [&](const std::string& token) {
        return story.head.call_as(token, "POST", "/v1/runs",
                                  {{"job", theirs}, {"resume", true}, {"array_member", member}});
    };
    CHECK(says(submit(story.bob), "the job array grid is ann's"));
}

TEST_CASE("a hash in a job's env tells nobody whether there is such a blob, and cannot be named before it is sent") {
    OwnershipStory story;
    const auto named = [&](const std::string& sha256) {
        json theirs = job("thief");
        theirs["env"] = {{"RTRAIN_DRIVER_SHA256", sha256}};
        const Answer refused = story.head.call_as(story.bob, "POST", "/v1/runs", {{"job", theirs}});
        std::string text = refused.text;
        for (auto at = text.find(sha256); at != std::string::npos; at = text.find(sha256))
            text.erase(at, sha256.size());
        return std::pair(refused.status, text);
    };
    const std::string code = "the code of ann", there = security::sha256_hex(code), none(64, 'a');
    CHECK(HeadUnderTest::send(story.head.endpoint(story.ann),
                              {.method = "PUT", .target = "/v1/blobs/" + there, .body = code})
              .status == 201);
    CHECK(named(there).first == 422);
    CHECK(named(there) == named(none));
}

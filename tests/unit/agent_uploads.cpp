// Stories of files on their way to a run's directory, when the storage has no room for all of them.
#include <fstream>

#include "daemon/agent/node_files.hpp"
#include "daemon/agent/uploads.hpp"
#include "storage/uri/store.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

struct UploadStory {
    Folder folder;
    AttemptGear gear;
    std::string stage;
    UploadStory() {
        gear.prepare.run_name = "digits";
        gear.prepare.storage_path = folder.path + "/runs";
        REQUIRE(make_directory(folder.path + "/runs", 0755));
        auto store = storage::open_file_store(folder.path + "/runs");
        REQUIRE(store);
        gear.store = std::move(*store);
        gear.staging = folder.path + "/runs/digits/.staging/1/n1";
        gear.spool = folder.path + "/node/spool";
        stage = gear.spool + "/rank-00000-1";
        REQUIRE(make_directory(stage, 0755));
    }
    void write(const std::string& name, const std::string& bytes) const { std::ofstream(stage + "/" + name) << bytes; }
    std::string checkpoint(const std::string& name) const {
        return folder.path + "/runs/digits/checkpoint_000001-a001/" + name;
    }
    Upload order() const {
        return {.attempt = attempt_1, .index = 1, .directory = "checkpoint_000001-a001", .staged = {{0, stage}}};
    }
};

}  // namespace

TEST_CASE("an upload that broke off between two files names both of them once it succeeds") {
    UploadStory story;
    story.write("a.pt", "first");
    story.write("b.pt", "second");
    REQUIRE(make_directory(story.checkpoint("b.pt"), 0755));  // in the way: the second file cannot go there

    const Uploaded broken = upload(story.gear, story.order());
    CHECK_FALSE(broken.why.empty());
    CHECK(broken.files.empty());
    CHECK(read_whole(story.checkpoint("a.pt")));

    remove_tree(story.checkpoint("b.pt"));
    remove_tree(story.gear.staging);  // nothing that the next try needs lies on the storage that was full
    const Uploaded whole = upload(story.gear, story.order());
    CHECK(whole.why == "");
    REQUIRE(whole.files.size() == 2);
    CHECK(whole.files[0].path == "a.pt");
    CHECK(whole.files[0].bytes == 5);
    CHECK(whole.files[0].sha256.size() == 64);
    CHECK(whole.files[1].path == "b.pt");
    CHECK(read_whole(story.checkpoint("b.pt")));
    CHECK_FALSE(std::filesystem::exists(story.stage));
}

TEST_CASE("files are staged on the node's own disk when the storage path has hardly room for them") {
    constexpr std::int64_t gib = std::int64_t{1} << 30;
    CHECK(place_to_stage(gib, 2 * gib, 0) == StagePlace::storage);
    CHECK(place_to_stage(gib, 2 * gib - 1, 5 * gib) == StagePlace::spool);
    CHECK(place_to_stage(gib, std::nullopt, 5 * gib) == StagePlace::spool);  // cluster://
    CHECK(place_to_stage(gib, 2 * gib - 1, 5 * gib - 1) == StagePlace::nowhere);
    CHECK(place_to_stage(0, 1 << 20, 1) == StagePlace::spool);  // nothing is known yet, and storage is nearly full

    UploadStory story;
    const auto roomy = make_stage(story.gear, 0, "1", 0);
    REQUIRE(roomy);
    CHECK(roomy->starts_with(story.gear.staging));
    const auto hopeless = make_stage(story.gear, 0, "2", std::int64_t{1} << 59);
    REQUIRE_FALSE(hopeless);
    CHECK(hopeless.error().code == ErrorCode::full);
    CHECK(hopeless.error().message.find(story.gear.spool) != std::string::npos);
}

TEST_CASE("an upload whose agent died before it could say so names the same files again, if they are there") {
    UploadStory story;
    story.write("a.pt", "first");
    const Uploaded first = upload(story.gear, story.order());
    REQUIRE(first.why == "");

    const Uploaded again = upload(story.gear, story.order());
    CHECK(again.why == "");
    CHECK(again.files == first.files);

    remove_tree(story.checkpoint("a.pt"));
    const Uploaded gone = upload(story.gear, story.order());
    CHECK(gone.why.find("a.pt") != std::string::npos);
    CHECK(gone.files.empty());
}

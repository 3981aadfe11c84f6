// A checkpoint's files that stay on the node which sent them, and attempts of users to change them there.
#include "daemon/agent/disk/kept_checkpoints.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "daemon/agent/delivery/uploads.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/far_store.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Names names_in(const std::string& directory) {
    Names names;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(directory, failed)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

// Rank 0 of run digits stages files on this node. The store is on another machine.
struct KeptStory {
    Folder folder;
    std::unique_ptr<storage::Store> near = open(folder.path + "/bucket");
    std::shared_ptr<storage::FarStore> far = std::make_shared<storage::FarStore>(*near);
    AttemptContext context;
    std::string run = folder.path + "/node/checkpoints/c0ffee-17";

    KeptStory() {
        context.prepare = prepare_order({});
        context.store = far;
        context.spool = context.staging = folder.path + "/node/attempts/17-1/spool";
        context.kept = folder.path + "/node/checkpoints";
    }
    static std::unique_ptr<storage::Store> open(const std::string& path) {
        fs::create_directories(path);
        return storage::open_file_store(path).value();
    }
    std::string stage(std::uint64_t report) const {
        const std::string made = context.spool + "/rank-00000-" + std::to_string(report);
        fs::create_directories(made);
        return made;
    }
    static std::string directory(std::uint64_t report) { return storage::checkpoint_directory_name("", report, 1); }
    Uploaded send(std::uint64_t report) const {
        return upload(context, {.attempt = attempt_1,
                                .index = report,
                                .directory = directory(report),
                                .staged = {{0, stage(report)}},
                                .number = 1});
    }
    void commit(const Uploaded& sent) const {
        REQUIRE(sent.why == "");
        storage::Manifest manifest{.directory = directory(sent.index), .attempt = 1, .report = sent.index};
        for (const protocol::StagedFile& file : sent.files)
            manifest.files.push_back({file.path, file.bytes, file.sha256, file.rank});
        REQUIRE(storage::write_manifest(*far, "digits", manifest));
        const std::string place = "c0ffee-17/1-" + std::to_string(sent.index);
        REQUIRE(keep_committed(context.kept, place, sent_below(context.spool, sent.index)));
        drop_replaced(context.kept, place);
    }
    void bring(std::uint64_t report, const std::string& bytes) const {
        std::ofstream(stage(report) + "/model.pt") << bytes;
        commit(send(report));
    }
    // The state from which an attempt starts: the bytes of model.pt, the number of downloads, and the files that were
    // kept here.
    struct Restored {
        std::string bytes;
        int downloads = 0;
        std::string here;
        bool operator==(const Restored&) const = default;
    };
    Restored restore(std::uint64_t report, const std::string& place) const {
        far->fetched = 0;
        KeptFiles kept(context.kept, "c0ffee-17");
        const auto path =
            storage::fetch_checkpoint(*far, "digits", directory(report), folder.path + "/" + place, {}, kept.copies());
        REQUIRE(path);
        return {read_whole(*path + "/model.pt").value(), far->fetched, kept.text()};
    }
};
using Restored = KeptStory::Restored;

}  // namespace

TEST_CASE("the next attempt reads a committed checkpoint on the node that brought it") {
    KeptStory story;
    story.bring(1, "weights");
    CHECK(story.restore(1, "restore") == Restored{"weights", 0, "1 file of 7 bytes"});
    CHECK(story.restore(1, "again") == Restored{"weights", 0, "1 file of 7 bytes"});
    CHECK(fs::status(story.context.kept).permissions() == fs::perms::owner_all);
    CHECK(names_in(story.stage(1)).empty());
}

TEST_CASE("files of equal content, and a link beside its file, are kept once and all restored") {
    KeptStory story;
    const std::string stage = story.stage(1);
    fs::create_directories(stage + "/shards");
    for (const std::string name : {"model.pt", "shards/0", "shards/1"}) std::ofstream(stage + "/" + name) << "weights";
    fs::create_symlink("model.pt", stage + "/latest.pt");
    story.commit(story.send(1));
    CHECK(names_in(story.run + "/1-1").size() == 1);
    CHECK(story.restore(1, "restore") == Restored{"weights", 0, "4 files of 28 bytes"});
    CHECK(read_whole(story.folder.path + "/restore/shards/1").value() == "weights");
}

TEST_CASE("who holds a staged file open changes neither what was restored nor what will be") {
    KeptStory story;
    std::ofstream(story.stage(1) + "/model.pt") << "weights";
    const storage::Descriptor held(::open((story.stage(1) + "/model.pt").c_str(), O_RDWR | O_CLOEXEC));
    story.commit(story.send(1));
    CHECK(story.restore(1, "before") == Restored{"weights", 0, "1 file of 7 bytes"});

    REQUIRE(::pwrite(held.number(), "W", 1, 0) == 1);

    CHECK(read_whole(story.folder.path + "/before/model.pt").value() == "weights");
    CHECK(story.restore(1, "after") == Restored{"weights", 1, ""});
    CHECK(names_in(story.run + "/1-1").empty());  // it is not tried again either
    CHECK(story.restore(1, "later") == Restored{"weights", 1, ""});
}

TEST_CASE("of a run the newest committed checkpoint is kept, and none that is given up") {
    KeptStory story;
    story.bring(1, "one");
    story.bring(2, "two");
    CHECK(names_in(story.run) == Names{"1-2"});
    drop_replaced(story.context.kept, "c0ffee-17/1-1");  // late
    CHECK(names_in(story.run) == Names{"1-2"});
    std::ofstream(story.stage(3) + "/model.pt") << "three";
    REQUIRE(story.send(3).why == "");
    CHECK(names_in(story.run) == Names{"1-2"});
    CHECK(fs::exists(sent_below(story.context.spool, 3)));
    std::ofstream(story.stage(4) + "/model.pt") << "four";
    REQUIRE(story.send(4).why == "");
    CHECK_FALSE(fs::exists(sent_below(story.context.spool, 3)));
    CHECK(story.restore(2, "restore") == Restored{"two", 0, "1 file of 3 bytes"});
    CHECK(story.restore(1, "older") == Restored{"one", 1, ""});
    drop_staging(story.context);
    CHECK_FALSE(fs::exists(story.context.spool));
    drop_kept(story.context.kept, "c0ffee-17");
    CHECK(names_in(story.context.kept).empty());
}

TEST_CASE("a node that brought nothing to the newest checkpoint keeps none of an older one") {
    KeptStory story;
    story.bring(1, "one");
    story.commit(Uploaded{.attempt = attempt_1, .index = 2});
    CHECK(names_in(story.context.kept).empty());
}

TEST_CASE("a try that broke off is continued by the next one, and all of its files are kept") {
    KeptStory story;
    std::ofstream(story.stage(1) + "/a.pt") << "aa";
    std::ofstream(story.stage(1) + "/model.pt") << "weights";
    REQUIRE(story.send(1).why == "");
    story.commit(story.send(1));  // its agent died before it reported the commit
    CHECK(names_in(story.run + "/1-1").size() == 2);
    CHECK(story.restore(1, "restore") == Restored{"weights", 0, "2 files of 9 bytes"});
}

TEST_CASE("a file with a second name is not the checkpoint's alone: it is downloaded") {
    KeptStory story;
    std::ofstream(story.folder.path + "/elsewhere.pt") << "weights";
    fs::create_hard_link(story.folder.path + "/elsewhere.pt", story.stage(1) + "/model.pt");
    story.commit(story.send(1));
    CHECK(story.restore(1, "restore") == Restored{"weights", 1, ""});
}

TEST_CASE("links, pipes and other sizes under a kept name are not read, nor is a name that leads elsewhere") {
    KeptStory story;
    story.bring(1, "weights");
    const std::string sha = names_in(story.run + "/1-1").front(), name = story.run + "/1-1/" + sha;
    const std::string outside = story.folder.path + "/outside";
    std::ofstream(outside) << "weights";
    KeptFiles kept(story.context.kept, "c0ffee-17");
    const auto put = [&](const std::string& as, std::int64_t bytes = 7) {
        return kept.copies().put({.path = "model.pt", .bytes = bytes, .sha256 = as}, story.folder.path + "/target");
    };
    CHECK(put(sha));
    CHECK_FALSE(put(sha, 8));
    CHECK_FALSE(put("../../../../outside"));
    CHECK_FALSE(put(std::string(64, '.')));
    fs::remove(name);
    fs::create_symlink(outside, name);
    CHECK_FALSE(put(sha));
    fs::remove(name);
    REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
    CHECK_FALSE(put(sha));
}

TEST_CASE("a claim of several nodes relies on what is kept once for each checkpoint") {
    KeptStory story;
    CHECK(KeptFiles(story.context.kept, "c0ffee-17").first_claim());  // no file is kept
    story.bring(1, "one");
    CHECK(KeptFiles(story.context.kept, "c0ffee-17").first_claim());
    CHECK_FALSE(KeptFiles(story.context.kept, "c0ffee-17").first_claim());
    story.bring(2, "two");
    CHECK(KeptFiles(story.context.kept, "c0ffee-17").first_claim());
}

TEST_CASE("a fifth of what is free is enough: what takes more by itself goes first, then the oldest") {
    const KeptCheckpoint large{"r1/1-1", 300, 3}, old{"r2/1-1", 60, 1}, newer{"r3/1-1", 70, 2};
    CHECK(beyond_room({}, 0).empty());
    CHECK(beyond_room({old, newer}, 520) == Names{});          // 130 of 650 bytes
    CHECK(beyond_room({newer, old}, 519) == Names{"r2/1-1"});  // 129 bytes is a fifth
    CHECK(beyond_room({old, newer, large}, 570) == Names{"r1/1-1"});
    CHECK(beyond_room({large}, 0) == Names{"r1/1-1"});
}

TEST_CASE("what is kept goes when a rank finds no room to stage") {
    KeptStory story;
    story.bring(1, "weights");
    CHECK(make_stage(story.context, 0, "1-1", 1));
    CHECK(names_in(story.run) == Names{"1-1"});
    CHECK_FALSE(make_stage(story.context, 0, "1-2", std::int64_t{1} << 60));
    CHECK_FALSE(fs::exists(story.context.kept));
}

TEST_CASE("a mapped user's files are kept where he cannot look, and restored as the agent's") {
    const passwd* person = ::getpwnam("nobody");
    if (::geteuid() != 0 || person == nullptr) {
        WARN("skipped: giving files to another user needs root");
        return;
    }
    KeptStory story;
    REQUIRE(::chmod(story.folder.path.c_str(), 0755) == 0);
    story.context.user = {.uid = person->pw_uid, .gid = person->pw_gid, .name = "nobody", .home = "/"};
    const std::string file = story.stage(1) + "/model.pt";
    std::ofstream(file) << "weights";
    for (const std::string& path : {story.stage(1), file})
        REQUIRE(::chown(path.c_str(), person->pw_uid, person->pw_gid) == 0);
    REQUIRE(::chmod(file.c_str(), 0600) == 0);
    story.commit(story.send(1));
    CHECK(story.restore(1, "restore") == Restored{"weights", 0, "1 file of 7 bytes"});
    struct stat seen{};
    REQUIRE(::stat((story.folder.path + "/restore/model.pt").c_str(), &seen) == 0);
    CHECK(seen.st_uid == 0);
    REQUIRE(::stat((story.run + "/1-1").c_str(), &seen) == 0);
    CHECK((seen.st_uid == 0 && (seen.st_mode & 0777) == 0700));
}

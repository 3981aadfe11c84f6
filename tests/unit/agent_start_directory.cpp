// Stories of the directories that ranks start in, and of the unpacked code that they are made from.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/agent/start_directory.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
}

std::string text_of(const fs::path& file) { return read_whole(file.string()).value(); }

struct stat facts_of(const fs::path& file) {
    struct stat facts{};
    REQUIRE(::lstat(file.c_str(), &facts) == 0);
    return facts;
}

std::int64_t written_ns(const fs::path& file) {
    const struct stat facts = facts_of(file);
    return facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

struct Code {  // of a user who trained by hand before
    Folder folder;
    NodeFacts facts{.files = {folder.path, folder.path + "/scratch"}, .node = "n1"};
    AttemptGear gear{.prepare = prepare_order({})};
    fs::path code;

    Code() {
        gear.prepare.code_sha256 = "c0de";
        gear.working_dir = facts.files.code("c0de");
        code = gear.working_dir;
        put(code / "train.py", "print()");
        put(code / "model.pt", "old");
        put(code / "out.log", "old");
        put(code / "checkpoints/model.pt", "old");
        fs::create_symlink("checkpoints/model.pt", code / "latest.pt");
        ::chmod((code / "train.py").c_str(), 0755);
        REQUIRE(seal_code(gear.working_dir).ok());
    }
    fs::path of(std::uint32_t rank) { return start_directory(gear, facts, rank).value(); }
};

}  // namespace

TEST_CASE("what lies beside the script is each rank's own: nothing that it writes reaches the code or another rank") {
    Code story;
    const fs::path zero = story.of(0), one = story.of(1);

    for (const fs::path& mine : {zero, one})
        for (const char* name : {"model.pt", "checkpoints/model.pt", "checkpoints/new.pt"})
            std::ofstream(mine / name) << "of " << mine.string();

    CHECK(text_of(zero / "model.pt") == "of " + zero.string());
    CHECK(text_of(one / "checkpoints/model.pt") == "of " + one.string());
    CHECK(text_of(one / "latest.pt") == "of " + one.string());
    CHECK(text_of(story.code / "model.pt") == "old");
    CHECK(text_of(story.code / "checkpoints/model.pt") == "old");
    CHECK_FALSE(fs::exists(story.code / "checkpoints/new.pt"));
    CHECK(::access((zero / "train.py").c_str(), X_OK) == 0);
    CHECK(story.of(0) == zero);
    CHECK(text_of(zero / "model.pt") == "of " + zero.string());
}

TEST_CASE("files of the code are sealed, and have times of their own that the copies keep") {
    Code story;
    const fs::path mine = story.of(0);
    CHECK((facts_of(story.code / "model.pt").st_mode & 0777) == 0444);
    CHECK((facts_of(story.code / "train.py").st_mode & 0777) == 0555);
    CHECK((facts_of(mine / "model.pt").st_mode & 0777) == 0644);
    CHECK(written_ns(mine / "model.pt") == written_ns(story.code / "model.pt"));
    CHECK(written_ns(story.code / "model.pt") != written_ns(story.code / "checkpoints/model.pt"));
    remove_tree(story.code);
    CHECK_FALSE(fs::exists(story.code));
}

TEST_CASE("the start directories of an attempt go, those of another stay") {
    Code story;
    const fs::path mine = story.of(0);
    AttemptGear other = story.gear;
    ++other.prepare.attempt.incarnation;
    const fs::path others = start_directory(other, story.facts, 0).value();
    put(mine.string() + ".new/model.pt", "ol");
    remove_start_directories(story.gear, story.facts);
    CHECK(fs::is_empty(mine.parent_path()));
    CHECK(text_of(others / "model.pt") == "old");
}

TEST_CASE("what setup made is shared by links; an empty directory that it made is each rank's own") {
    Code story;
    const fs::path work = story.folder.path + "/setups/key/work";
    fs::create_directories(work.parent_path());
    fs::copy(story.code, work, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    put(work / "data/big", "made");
    put(work / "checkpoints/built.so", "made");
    fs::create_directory(work / "results");
    story.gear.working_dir = work;
    const fs::path mine = story.of(0);

    CHECK(fs::read_symlink(mine / "data") == work / "data");
    CHECK(fs::read_symlink(mine / "checkpoints/built.so") == work / "checkpoints/built.so");
    CHECK(fs::read_symlink(mine / "latest.pt") == "checkpoints/model.pt");
    CHECK(fs::is_regular_file(fs::symlink_status(mine / "model.pt")));
    CHECK(fs::is_directory(fs::symlink_status(mine / "results")));
}

TEST_CASE("a start directory that was cut off is made anew") {
    Code story;
    const fs::path aside = story.facts.files.worker(attempt_1, 0) + "/cwd.new";
    put(aside / "model.pt", "ol");
    CHECK(text_of(story.of(0) / "model.pt") == "old");
    CHECK_FALSE(fs::exists(aside));
}

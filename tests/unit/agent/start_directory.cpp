// Stories of the directories that ranks start in, and of the unpacked code that they are made from.
#include "daemon/agent/preparation/start_directory.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/agent/preparation/places.hpp"
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

// Returns a user of a root agent; nullopt without root.
std::optional<WorkerUser> another_user(const char* name = "nobody") {
    const passwd* entry = ::geteuid() == 0 ? ::getpwnam(name) : nullptr;
    if (entry == nullptr) return std::nullopt;
    return WorkerUser{.uid = entry->pw_uid, .gid = entry->pw_gid, .name = name, .home = entry->pw_dir};
}

bool readable_by(const WorkerUser& user, const fs::path& path) {
    const pid_t child = ::fork();
    if (child == 0) {
        const bool changed = ::setgid(static_cast<gid_t>(user.gid)) == 0 && ::setuid(static_cast<uid_t>(user.uid)) == 0;
        ::_exit(changed && ::access(path.c_str(), R_OK) == 0 ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0;
}

struct Code {  // the code of a user who trained by hand before
    Folder folder;
    NodeFacts facts{.files = {folder.path, folder.path + "/scratch"}, .node = "n1"};
    AttemptContext context{.prepare = prepare_order({})};
    fs::path code;

    Code() {
        ::chmod(folder.path.c_str(), 0755);
        context.prepare.code_sha256 = "c0de";
        context.working_dir = facts.files.code("c0de");
        code = context.working_dir;
        put(code / "train.py", "print()");
        put(code / "model.pt", "old");
        put(code / "out.log", "old");
        put(code / "checkpoints/model.pt", "old");
        fs::create_symlink("checkpoints/model.pt", code / "latest.pt");
        ::chmod((code / "train.py").c_str(), 0755);
        REQUIRE(seal_code(context.working_dir).ok());
    }
    fs::path of(std::uint32_t rank) { return start_directory(context, facts, rank).value(); }
};

}  // namespace

TEST_CASE("what lies beside the script is each rank's own: nothing that it writes reaches the code or another rank") {
    Code story;
    const fs::path zero = story.of(0), one = story.of(1);

    for (const fs::path& own : {zero, one})
        for (const char* name : {"model.pt", "checkpoints/model.pt", "checkpoints/new.pt"})
            std::ofstream(own / name) << "of " << own.string();

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
    const fs::path own = story.of(0);
    CHECK((facts_of(story.code / "model.pt").st_mode & 0777) == 0444);
    CHECK((facts_of(story.code / "train.py").st_mode & 0777) == 0555);
    CHECK((facts_of(own / "model.pt").st_mode & 0777) == 0644);
    CHECK(written_ns(own / "model.pt") == written_ns(story.code / "model.pt"));
    CHECK(written_ns(story.code / "model.pt") != written_ns(story.code / "checkpoints/model.pt"));
    remove_tree(story.code);
    CHECK_FALSE(fs::exists(story.code));
}

TEST_CASE("the start directories of an attempt go, those of another stay") {
    Code story;
    const fs::path own = story.of(0);
    AttemptContext other = story.context;
    ++other.prepare.attempt.incarnation;
    const fs::path others = start_directory(other, story.facts, 0).value();
    put(own.string() + ".new/model.pt", "ol");
    remove_start_directories(story.context, story.facts);
    CHECK(fs::is_empty(own.parent_path()));
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
    story.context.working_dir = work;
    const fs::path own = story.of(0);

    CHECK(fs::read_symlink(own / "data") == work / "data");
    CHECK(fs::read_symlink(own / "checkpoints/built.so") == work / "checkpoints/built.so");
    CHECK(fs::read_symlink(own / "latest.pt") == "checkpoints/model.pt");
    CHECK(fs::is_regular_file(fs::symlink_status(own / "model.pt")));
    CHECK(fs::is_directory(fs::symlink_status(own / "results")));
}

TEST_CASE("a start directory that was cut off is made anew") {
    Code story;
    const fs::path aside = story.facts.files.worker(attempt_1, 0) + "/cwd.new";
    put(aside / "model.pt", "ol");
    CHECK(text_of(story.of(0) / "model.pt") == "old");
    CHECK_FALSE(fs::exists(aside));
}

TEST_CASE("a start directory, its list and the pickled loop are for the user of the run, and for no other") {
    Code story;
    const auto user = another_user(), other = another_user("daemon");
    if (!user || !other) return;
    story.context.user = *user;
    story.context.driver_file = story.folder.path + "/code/loop.pkl";
    put(story.context.driver_file, "loop");
    keep_apart(story.facts.files);
    const fs::path own = story.of(0);

    const fs::path list = own.parent_path().string() + code_list_name, loop = story.facts.files.driver(attempt_1);
    for (const fs::path& path : {own / "model.pt", own / "latest.pt", list, loop}) {
        CHECK(readable_by(*user, path));
        CHECK_FALSE(readable_by(*other, path));
    }
    for (const char* name : {".", "model.pt", "latest.pt", "checkpoints", "checkpoints/model.pt"})
        CHECK(facts_of(own / name).st_uid == user->uid);
    for (const fs::path& path : {story.code / "model.pt", fs::path(story.context.driver_file)})
        CHECK_FALSE(readable_by(*user, path));
    for (const fs::path& path : {own.parent_path(), own.parent_path().parent_path()}) CHECK(facts_of(path).st_uid == 0);
    CHECK(text_of(loop) == "loop");
    remove_start_directories(story.context, story.facts);
    CHECK_FALSE(fs::exists(loop));
    CHECK_FALSE(fs::exists(list));
}

TEST_CASE("what setup made is copied with the rights of its user") {
    Code story;
    const auto user = another_user();
    if (!user) return;
    const fs::path work = story.folder.path + "/setups/key/work";
    put(story.folder.path + "/precious", "for root alone");
    ::chmod((story.folder.path + "/precious").c_str(), 0600);
    put(work / "train.py", "print()");
    fs::create_hard_link(story.folder.path + "/precious", work / "model.pt");
    story.context.user = *user;
    story.context.working_dir = work;
    story.context.setup = SetupResult{.why = "", .working_dir = work, .virtual_env = ""};

    const auto made = start_directory(story.context, story.facts, 0);
    REQUIRE_FALSE(made);
    CHECK(made.error().message.find("model.pt: Permission denied") != std::string::npos);
    CHECK(fs::is_empty(story.facts.files.worker(attempt_1, 0)));
}

TEST_CASE("the list of a start directory names what lies there, as it came") {
    Code story;
    const fs::path work = story.folder.path + "/work";
    fs::copy(story.code, work, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    put(work / "data/big", "made");
    story.context.working_dir = work;
    const fs::path own = story.of(0);
    const std::string list = '\0' + text_of(own.parent_path().string() + code_list_name);
    const auto has = [&](const std::string& record) { return list.find('\0' + record + '\0') != std::string::npos; };

    CHECK(has("f 3 " + std::to_string(written_ns(own / "model.pt")) + " model.pt"));
    CHECK(has("f 3 " + std::to_string(written_ns(own / "checkpoints/model.pt")) + " checkpoints/model.pt"));
    CHECK(has("d checkpoints"));
    CHECK(has(std::string("l latest.pt") + '\0' + "checkpoints/model.pt"));
    CHECK(has(std::string("l data") + '\0' + (work / "data").string()));
}

TEST_CASE("code is closed to all once no worker of an agent before is left, which looks into it") {
    Code story;
    ::chmod((story.folder.path + "/code").c_str(), 0755);
    const fs::path former = story.facts.files.worker(attempt_1, 0) + "/cwd";
    fs::create_directories(former);
    keep_apart(story.facts.files);
    CHECK((facts_of(story.folder.path + "/code").st_mode & 07777) == 0711);
    fs::remove(former);
    keep_apart(story.facts.files);
    CHECK((facts_of(story.folder.path + "/code").st_mode & 07777) == 0700);
}

TEST_CASE("an agent that runs workers as itself can remove the checkpoint that they started from") {
    const Folder folder;
    REQUIRE(own_directory(folder.path + "/restore"));
    REQUIRE(lend_directory(folder.path + "/restore", {}));
    CHECK((facts_of(folder.path + "/restore").st_mode & 07777) == 0700);
}

TEST_CASE("a checkpoint to start from is lent to its user, and its directory made anew for the next") {
    const auto user = another_user(), other = another_user("daemon");
    if (!user || !other) return;
    const Folder folder;
    ::chmod(folder.path.c_str(), 0755);
    const std::string restored = folder.path + "/17-1/restore";
    REQUIRE(own_directory(restored));
    put(restored + "/model.pt", "weights");
    CHECK_FALSE(readable_by(*user, restored + "/model.pt"));
    REQUIRE(own_directory(restored));  // the restored files stay
    REQUIRE(lend_directory(restored, *user));
    CHECK(readable_by(*user, restored + "/model.pt"));
    CHECK_FALSE(readable_by(*other, restored + "/model.pt"));
    REQUIRE(own_directory(restored));
    CHECK(fs::is_empty(restored));
    CHECK(facts_of(restored).st_uid == 0);
}

TEST_CASE("a scratch directory whose name another user has taken is refused, and nothing is given away") {
    const auto user = another_user(), other = another_user("daemon");
    if (!user || !other) return;
    const Folder folder;
    const std::string above = folder.path + "/scratch", own = above + "/17-1", precious = folder.path + "/precious";
    REQUIRE(make_scratch_directory(above));
    REQUIRE(make_scratch(own, *user));
    REQUIRE(make_scratch(own, *user));  // from another rank
    CHECK(facts_of(own).st_uid == user->uid);
    CHECK((facts_of(own).st_mode & 07777) == 0700);

    fs::create_directory(precious);
    fs::create_directory_symlink(precious, above + "/18-1");
    CHECK_FALSE(make_scratch(above + "/18-1", *user));
    CHECK(facts_of(precious).st_uid == 0);

    REQUIRE(make_scratch(above + "/19-1", *other));
    const Status taken = make_scratch(above + "/19-1", *user);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().message.find("belongs to another user") != std::string::npos);
    CHECK(facts_of(above + "/19-1").st_uid == other->uid);
}

TEST_CASE("an agent's own directory below --scratch lies where nobody else can exchange it") {
    const auto user = another_user();
    if (!user) return;
    const Folder folder;
    const std::string shared = folder.path + "/shared";
    fs::create_directory(shared);
    ::chmod(shared.c_str(), 01777);  // as /tmp is
    REQUIRE(make_scratch_directory(shared + "/rtrain-c0ffee-n1"));
    REQUIRE(make_scratch_directory(shared + "/rtrain-c0ffee-n1"));  // a restart
    CHECK((facts_of(shared + "/rtrain-c0ffee-n1").st_mode & 0777) == 0711);
    const auto refused = [&](const std::string& path) { return make_scratch_directory(path).error().message; };

    fs::create_directory(shared + "/taken");
    REQUIRE(::chown((shared + "/taken").c_str(), static_cast<uid_t>(user->uid), 0) == 0);
    CHECK(refused(shared + "/taken").find("taken is somebody else's") != std::string::npos);
    fs::create_directory_symlink(folder.path, shared + "/link");
    CHECK(refused(shared + "/link").find("link is somebody else's") != std::string::npos);
    ::chmod(shared.c_str(), 0777);  // any user may rename its entries
    CHECK(refused(shared + "/rtrain-c0ffee-n1").find("can write to " + shared) != std::string::npos);
    CHECK(refused(shared + "/taken/deeper").find("belongs to uid") != std::string::npos);
}

TEST_CASE("a data directory that others than root can write to is refused by root's agent") {
    if (!another_user()) return;
    const Folder folder;
    CHECK(check_data_directory(folder.path).ok());
    ::chmod(folder.path.c_str(), 0777);
    CHECK_FALSE(check_data_directory(folder.path).ok());
    ::chmod(folder.path.c_str(), 0711);
    REQUIRE(::chown(folder.path.c_str(), static_cast<uid_t>(another_user()->uid), 0) == 0);
    const Status refused = check_data_directory(folder.path);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().next.find("chown root " + folder.path) != std::string::npos);

    const std::string inside = folder.path + "/agent";  // root's, in a directory whose owner can rename it
    fs::create_directory(inside);
    for (const std::string& path : {inside, folder.path + "/made-later"}) {
        const Status above = check_data_directory(path);
        REQUIRE_FALSE(above);
        CHECK(above.error().message.find("others can exchange " + path) != std::string::npos);
    }
}

TEST_CASE("a small file is written beside a link of its name, not through it") {
    const Folder folder;
    put(folder.path + "/precious", "the administrator's");
    fs::create_symlink(folder.path + "/precious", folder.path + "/mark.new");
    REQUIRE(write_whole(folder.path + "/mark", "done", 0600, Durable::no));
    CHECK(text_of(folder.path + "/precious") == "the administrator's");
    CHECK(text_of(folder.path + "/mark") == "done");
    CHECK((facts_of(folder.path + "/mark").st_mode & 07777) == 0600);
}

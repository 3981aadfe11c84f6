// Files of a worker that is another user than the agent. The agent does not read files for it that the worker may not
// read.
#include "daemon/agent/delivery/staged_files.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/agent/delivery/named_logs.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/preparation/user_store.hpp"
#include "storage/uri/files/store.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& bytes) { std::ofstream(path) << bytes; }

// A root agent whose workers are `nobody`.
struct MappedStory {
    Folder folder;
    AttemptContext context;
    std::string stage, secret = folder.path + "/secret";
    MappedStory() {
        REQUIRE(::chmod(folder.path.c_str(), 0755) == 0);
        context.prepare.run_name = "digits";
        context.prepare.storage_path = folder.path + "/runs";
        context.staging = folder.path + "/runs/digits/.staging/1/n1";
        context.spool = folder.path + "/node/spool";
        const passwd* person = ::getpwnam("nobody");
        REQUIRE(person != nullptr);
        context.user = {.uid = person->pw_uid, .gid = person->pw_gid, .name = "nobody", .home = "/"};
        REQUIRE(make_directory(folder.path + "/runs", 0755));
        give_to_user(folder.path + "/runs");
        REQUIRE(make_directory(context.spool, 0711));
        auto store = open_user_store(folder.path + "/runs", context.user);
        REQUIRE(store);
        context.store = *store;
        auto made = make_stage(context, 0, "1-1", 0);
        REQUIRE(made);
        stage = *made;
        write(secret, "for root alone");
        REQUIRE(::chmod(secret.c_str(), 0600) == 0);
    }
    void give_to_user(const std::string& path) const {
        REQUIRE(::lchown(path.c_str(), static_cast<uid_t>(context.user.uid), static_cast<gid_t>(context.user.gid)) ==
                0);
    }
    void write_as_user(const std::string& name, const std::string& bytes) const {
        write(stage + "/" + name, bytes);
        give_to_user(stage + "/" + name);
    }
    std::string checkpoint(const std::string& name) const {
        return folder.path + "/runs/digits/checkpoint_000001-a001/" + name;
    }
    ListStaged listing() const { return {.attempt = attempt_1, .index = 1, .staged = {{0, stage}}}; }
    Upload order() const {
        return {.attempt = attempt_1,
                .index = 1,
                .directory = "checkpoint_000001-a001",
                .staged = {{0, stage}},
                .number = 1};
    }
};

bool without_root() {
    if (::geteuid() == 0) return false;
    WARN("skipped: giving files to another user needs root");
    return true;
}

// Returns the uid with which a thread of this process accesses files.
std::int64_t file_user_of(pid_t thread) {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
    for (std::string word; status >> word;) {
        if (word != "Uid:") continue;
        std::int64_t real = 0, effective = 0, saved = 0, files = -1;
        status >> real >> effective >> saved >> files;
        return files;
    }
    return -1;
}

}  // namespace

TEST_CASE("what is below a user's directory is removed with that user's rights, and what these leave by root") {
    if (without_root()) return;
    const MappedStory story;
    const std::string parent = story.folder.path + "/attempt", scratch = parent + "/scratch";
    REQUIRE(make_directory(scratch + "/inner", 0700));
    for (int number = 0; number < 20'000; ++number) std::ofstream(scratch + "/inner/" + std::to_string(number));
    REQUIRE(make_directory(scratch + "/of-root/below", 0700));
    write(scratch + "/of-root/below/file", "made by root");
    for (const std::string& one : {scratch, scratch + "/inner"}) story.give_to_user(one);
    REQUIRE(::chmod((scratch + "/inner").c_str(), 0) == 0);
    fs::create_symlink(story.secret, scratch + "/link");
    std::atomic<pid_t> remover = 0;
    std::atomic<bool> over = false;
    std::thread removal([&] {
        remover = ::gettid();
        remove_tree(parent);
        over = true;
    });
    int as_user = 0, as_root = 0;
    while (remover == 0) std::this_thread::yield();
    while (!over) ++(file_user_of(remover) == story.context.user.uid ? as_user : as_root);
    removal.join();
    INFO(as_user << " looks found the user's rights, " << as_root << " others");
    CHECK(as_user > as_root);
    CHECK_FALSE(fs::exists(parent));
    CHECK(*read_whole(story.secret) == "for root alone");
}

TEST_CASE("a worker's own log is opened with its user's rights") {
    if (without_root()) return;
    const MappedStory story;
    const std::string scratch = story.folder.path + "/scratch", logs = scratch + "/" + named_logs_folder;
    REQUIRE(make_directory(logs, 0755));
    for (const char* name : {"/rank-00000-mine.txt", "/rank-00000-closed.txt"}) write(logs + name, "said");
    for (const std::string& one : {scratch, logs, logs + "/rank-00000-mine.txt", logs + "/rank-00000-closed.txt"})
        story.give_to_user(one);
    REQUIRE(::chmod((logs + "/rank-00000-closed.txt").c_str(), 0) == 0);
    REQUIRE(copy_named_logs(story.context, scratch, "digits/logs"));
    CHECK(*read_whole(story.folder.path + "/runs/digits/logs/rank-00000-mine.txt") == "said");
    CHECK_FALSE(fs::exists(story.folder.path + "/runs/digits/logs/rank-00000-closed.txt"));
}

TEST_CASE("a worker's files are those in a directory that the agent made for its rank, and nothing else") {
    AttemptContext context;
    context.staging = "/runs/digits/.staging/1/n1";
    context.spool = "/var/lib/rtrain/attempts/1-1/spool";
    CHECK(is_stage_of(context, 3, "/runs/digits/.staging/1/n1/rank-00003-12345-1"));
    CHECK(is_stage_of(context, 3, "/var/lib/rtrain/attempts/1-1/spool/rank-00003-12345-2"));
    for (const char* foreign :
         {"", "/home/alice", "rank-00003-12345-1", "/runs/digits/.staging/1/n1/rank-00002-12345-1",
          "/runs/digits/.staging/1/n1/rank-00003-", "/runs/digits/.staging/1/n1/rank-00003-1/..",
          "/runs/digits/.staging/1/n1/rank-00003-1/", "/runs/digits/.staging/1/n1/rank-00003-1/sub",
          "/runs/digits/.staging/1/n1/../n1/rank-00003-1", "/runs/digits/.staging/1/n1/rank-00003-x"})
        CHECK_FALSE(is_stage_of(context, 3, foreign));
}

TEST_CASE("a link that leads out of the staged directory is refused by name, and what it means stays unread") {
    if (without_root()) return;
    const MappedStory story;
    story.write_as_user("model.bin", "weights");
    fs::create_symlink(story.secret, story.stage + "/x");
    story.give_to_user(story.stage + "/x");

    const StagedListed listed = list_staged(story.context, story.listing());
    CHECK(listed.files.empty());
    CHECK(listed.why.find("'x' as user nobody: x is a link that leads out of its directory; put a copy") !=
          std::string::npos);
    CHECK(listed.reason == "storage_refused");
    const Uploaded tried = upload(story.context, story.order());
    CHECK(tried.why.find("leads out of its directory") != std::string::npos);
    CHECK_FALSE(fs::exists(story.checkpoint("x")));
    CHECK_FALSE(fs::exists(story.checkpoint("model.bin")));
    CHECK(*read_whole(story.secret) == "for root alone");
}

TEST_CASE("a directory that was exchanged for a link gives nothing away of what lies behind it") {
    if (without_root()) return;
    const MappedStory story;
    REQUIRE(make_directory(story.folder.path + "/roots", 0755));
    write(story.folder.path + "/roots/readable", "root's");
    fs::create_directory_symlink(story.folder.path + "/roots", story.stage + "/sub");  // after the agent had listed it
    story.give_to_user(story.stage + "/sub");
    const StagedFiles staged(story.context);
    const StagedEntry entry{.rank = 0, .stage = story.stage, .name = "sub/readable", .bytes = 6};
    CHECK(staged.give(entry, "digits/c/readable").error().code == ErrorCode::unauthorised);
    CHECK(*read_whole(story.folder.path + "/roots/readable") == "root's");
    CHECK_FALSE(fs::exists(story.folder.path + "/runs/digits/c/readable"));
}

TEST_CASE(
    "links within the checkpoint become their content, a file that its user may not read is refused, plain ones are "
    "moved") {
    if (without_root()) return;
    const MappedStory story;
    REQUIRE(make_directory(story.stage + "/sub", 0700));
    story.give_to_user(story.stage + "/sub");
    story.write_as_user("sub/model.bin", "weights");
    fs::create_symlink("sub/model.bin", story.stage + "/latest");
    fs::create_symlink(story.stage + "/sub/../latest", story.stage + "/sub/by_full_path");
    fs::create_symlink("../nothing", story.stage + "/sub/to_nothing");
    write(story.stage + "/of_root", "for root alone");
    REQUIRE(::chmod((story.stage + "/of_root").c_str(), 0600) == 0);
    struct stat staged{}, stored{};
    REQUIRE(::stat((story.stage + "/sub/model.bin").c_str(), &staged) == 0);

    CHECK(list_staged(story.context, story.listing()).why.find("Permission denied") != std::string::npos);
    fs::remove(story.stage + "/of_root");
    CHECK(list_staged(story.context, story.listing()).why == "");
    const Uploaded done = upload(story.context, story.order());
    CHECK(done.why == "");
    CHECK(done.files.size() == 3);
    CHECK(*read_whole(story.checkpoint("latest")) == "weights");
    CHECK(*read_whole(story.checkpoint("sub/by_full_path")) == "weights");
    REQUIRE(::stat(story.checkpoint("sub/model.bin").c_str(), &stored) == 0);
    CHECK(staged.st_ino == stored.st_ino);
    CHECK_FALSE(fs::exists(story.stage));
    for (const auto& one : fs::recursive_directory_iterator(story.folder.path + "/runs")) {
        struct stat seen{};
        REQUIRE(::lstat(one.path().c_str(), &seen) == 0);
        CHECK(static_cast<std::int64_t>(seen.st_uid) == story.context.user.uid);
    }
}

TEST_CASE("a user's storage path is written with the user's rights, from files that only the agent may read") {
    if (without_root()) return;
    const MappedStory story;
    storage::Store& store = *story.context.store;
    REQUIRE(store.put_file(story.secret, "digits/log", false, {}));
    REQUIRE(store.put("digits/run.json", "{}"));
    REQUIRE(store.append("digits/metrics", "line\n"));
    REQUIRE(*store.create("digits/claim", "{}"));
    REQUIRE(store.get_file("digits/log", story.folder.path + "/back", {}));
    for (const char* name : {"digits/log", "digits/run.json", "digits/metrics", "digits/claim"}) {
        struct stat seen{};
        REQUIRE(::stat(store.local_path(name).c_str(), &seen) == 0);
        CHECK(static_cast<std::int64_t>(seen.st_uid) == story.context.user.uid);
    }
    REQUIRE(make_directory(story.folder.path + "/runs/roots", 0755));
    write(story.folder.path + "/runs/roots/file", "root's");
    REQUIRE(::chmod((story.folder.path + "/runs/roots/file").c_str(), 0600) == 0);
    CHECK(store.put("roots/new", "x").error().code == ErrorCode::unauthorised);
    CHECK(store.get("roots/file").error().code == ErrorCode::unauthorised);
    CHECK(store.remove_tree("roots").error().code == ErrorCode::unauthorised);
    CHECK(*read_whole(story.folder.path + "/runs/roots/file") == "root's");
}

TEST_CASE("after files were read as another user, the thread has its own rights again") {
    if (without_root()) return;
    const MappedStory story;
    const UserRights rights(story.context.user);
    CHECK_FALSE(rights.open_file(story.secret));
    {
        const UserRights::Worn worn(rights);
        { const UserRights::Worn again(rights); }  // restores the thread's earlier rights, not the agent's own
        REQUIRE(worn.taken());
        CHECK_FALSE(read_whole(story.secret));
    }
    CHECK(*read_whole(story.secret) == "for root alone");
    CHECK(UserRights(WorkerUser{}).open_file(story.secret));
}

TEST_CASE("a file whose name is not UTF-8 is refused, and named: a manifest could not say it") {
    Folder folder;
    AttemptContext context;
    context.prepare.run_name = "digits";
    context.prepare.storage_path = folder.path;
    context.staging = folder.path + "/digits/.staging/1/n1";
    context.spool = folder.path + "/spool";
    auto store = storage::open_file_store(folder.path);
    REQUIRE(store);
    context.store = std::move(*store);
    const std::string stage = context.spool + "/rank-00000-1";
    REQUIRE(make_directory(stage, 0755));
    write(stage + "/a.pt", "first");
    CHECK(list_staged(context, {.attempt = attempt_1, .index = 1, .staged = {{0, stage}}}).files.size() == 1);
    write(stage + "/caf\xe9.pt", "second");
    const StagedListed listed = list_staged(context, {.attempt = attempt_1, .index = 1, .staged = {{0, stage}}});
    CHECK(listed.why.find("\"caf\xef\xbf\xbd.pt\" of rank 0's checkpoint has a name that is not UTF-8") !=
          std::string::npos);
}

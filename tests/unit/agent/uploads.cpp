// Stories of files on their way to a run's directory, when the storage has no room for all of them.
#include "daemon/agent/delivery/uploads.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/agent/delivery/named_logs.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/preparation/handing_over.hpp"
#include "storage/uri/files/disk.hpp"
#include "storage/uri/files/store.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

struct UploadStory {
    Folder folder;
    AttemptContext context;
    std::string stage;
    UploadStory() {
        context.prepare.run_name = "digits";
        context.prepare.storage_path = folder.path + "/runs";
        REQUIRE(make_directory(folder.path + "/runs", 0755));
        auto store = storage::open_file_store(folder.path + "/runs");
        REQUIRE(store);
        context.store = std::move(*store);
        context.staging = folder.path + "/runs/digits/.staging/1/n1";
        context.spool = folder.path + "/node/spool";
        stage = context.spool + "/rank-00000-1";
        REQUIRE(make_directory(stage, 0755));
    }
    void write(const std::string& name, const std::string& bytes) const { std::ofstream(stage + "/" + name) << bytes; }
    std::string checkpoint(const std::string& name) const {
        return folder.path + "/runs/digits/checkpoint_000001-a001/" + name;
    }
    NodeFacts facts() const {
        return {.files = NodeFiles{folder.path + "/node", ""},
                .node = "n1",
                .may_run_as_root = true,
                .inherited = {},
                .head = {},
                .on_head = {}};
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

Status handed_over(const std::string& directory, const WorkerUser& user) {
    const auto store = storage::open_file_store(directory);
    return store ? hand_over_run(**store, "bert", user, "daemon") : store.error();
}

}  // namespace

TEST_CASE("a link that leads nowhere is left out, and one that leads to itself is named: neither ends the agent") {
    UploadStory story;
    story.write("a.pt", "first");
    std::filesystem::create_symlink(story.stage + "/nothing", story.stage + "/dangling");
    CHECK(list_staged(story.context, story.listing()).files.size() == 1);

    std::filesystem::create_symlink("round", story.stage + "/round");
    const StagedListed listed = list_staged(story.context, story.listing());
    CHECK(listed.why.find("'round': Too many levels of symbolic links") != std::string::npos);
    CHECK(upload(story.context, story.order()).why.find("'round'") != std::string::npos);
}

TEST_CASE(
    "a checkpoint's directory that is no name, or not one of this attempt, is refused before anything is written") {
    UploadStory story;
    story.write("a.pt", "first");
    const std::string outside = story.context.spool + "-outside";
    for (const std::string& name : {"../" + std::filesystem::path(outside).filename().string() + std::string(1, '\0'),
                                    std::string("../x"), std::string(), std::string("attempts"), std::string("code"),
                                    std::string("logs"), std::string("checkpoint_000001-a002")}) {
        auto order = story.order();
        order.directory = name;
        CHECK(upload(story.context, order).why.find("is not the directory of report") != std::string::npos);
    }
    CHECK(!std::filesystem::exists(outside));
    CHECK(!std::filesystem::exists(story.folder.path + "/runs/digits/logs"));
    CHECK(upload(story.context, story.order()).why == "");
}

TEST_CASE("a wished name is claimed before the first byte, and every node checks the claim before it writes") {
    UploadStory story;
    story.write("a.pt", "first");
    auto listing = story.listing();
    listing.name = "best";
    listing.number = 1;
    CHECK(list_staged(story.context, story.listing()).exact);       // no name is requested
    const StagedListed away = list_staged(story.context, listing);  // the storage cannot read run.json
    CHECK((away.why.empty() && away.files.size() == 1 && !away.exact));
    REQUIRE(*storage::create_run(*story.context.store, {.name = "digits"}));
    auto order = story.order();
    order.directory = "best";
    CHECK(upload(story.context, order).why.find("is not the directory of report 1 of attempt 1") != std::string::npos);
    CHECK(!std::filesystem::exists(story.folder.path + "/runs/digits/best"));
    CHECK(list_staged(story.context, listing).exact);
    CHECK(list_staged(story.context, listing).exact);  // repeated, since the agent died before it reported the result
    auto late = listing;
    late.index = 2;
    CHECK(!list_staged(story.context, late).exact);
    order.number = 2;
    CHECK(!upload(story.context, order).why.empty());  // an order of another attempt
    order.number = 1;
    const Uploaded done = upload(story.context, order);
    REQUIRE(done.why == "");
    storage::Manifest manifest{.directory = "best", .attempt = 1, .report = 1, .world_size = 1};
    for (const auto& file : done.files) manifest.files.push_back({file.path, file.bytes, file.sha256, file.rank});
    CHECK(commit(story.context, {attempt_1, manifest}).why == "");
    CHECK(list_checkpoints(*story.context.store, "digits")->size() == 1);
    listing.name = "attempts";
    CHECK(!list_staged(story.context, listing).exact);
}

TEST_CASE("a link to a file of the checkpoint becomes its content, whichever of the two names comes first") {
    UploadStory story;
    story.write("model.bin", "weights");
    std::filesystem::create_symlink("model.bin", story.stage + "/latest");
    std::filesystem::create_symlink("model.bin", story.stage + "/newest");
    const Uploaded done = upload(story.context, story.order());
    CHECK(done.why == "");
    CHECK(done.files.size() == 3);
    for (const char* name : {"latest", "model.bin", "newest"}) {
        CHECK(*read_whole(story.checkpoint(name)) == "weights");
        CHECK_FALSE(std::filesystem::is_symlink(story.checkpoint(name)));
    }
}

TEST_CASE("an upload that broke off between two files names both of them once it succeeds") {
    UploadStory story;
    story.write("a.pt", "first");
    story.write("b.pt", "second");
    REQUIRE(make_directory(story.checkpoint("b.pt"), 0755));  // keeps the second file from its place

    const Uploaded broken = upload(story.context, story.order());
    CHECK_FALSE(broken.why.empty());
    CHECK(broken.files.empty());
    CHECK(read_whole(story.checkpoint("a.pt")));

    remove_tree(story.checkpoint("b.pt"));
    remove_tree(story.context.staging);  // the next try needs nothing on the storage that was full
    const Uploaded whole = upload(story.context, story.order());
    CHECK(whole.why == "");
    REQUIRE(whole.files.size() == 2);
    CHECK(whole.files[0].path == "a.pt");
    CHECK(whole.files[0].bytes == 5);
    CHECK(whole.files[0].sha256.size() == 64);
    CHECK(whole.files[1].path == "b.pt");
    CHECK(read_whole(story.checkpoint("b.pt")));
    CHECK_FALSE(std::filesystem::exists(story.stage));
}

TEST_CASE("hashing a checkpoint is a sign of life, and no byte that the storage has taken") {
    UploadStory story;
    story.write("a.pt", "first");
    std::vector<std::int64_t> moved;
    const Uploaded done = upload(story.context, story.order(), [&](std::int64_t bytes) { moved.push_back(bytes); });
    CHECK(done.why == "");
    REQUIRE_FALSE(moved.empty());
    CHECK(moved == std::vector<std::int64_t>{0});  // progress within a second of it is not reported
}

TEST_CASE("files are staged on the node's own disk when the storage path has hardly room for them") {
    constexpr std::int64_t gib = std::int64_t{1} << 30;
    CHECK(place_to_stage(gib, 2 * gib, 0) == StagePlace::storage);
    CHECK(place_to_stage(gib, 2 * gib - 1, 5 * gib) == StagePlace::spool);
    CHECK(place_to_stage(gib, std::nullopt, 5 * gib) == StagePlace::spool);  // cluster://
    CHECK(place_to_stage(gib, 2 * gib - 1, 5 * gib - 1) == StagePlace::nowhere);
    CHECK(place_to_stage(0, 1 << 20, 1) == StagePlace::spool);  // no size is known yet, and the storage is nearly full

    UploadStory story;
    const auto roomy = make_stage(story.context, 0, "1", 0);
    REQUIRE(roomy);
    CHECK(roomy->starts_with(story.context.staging));
    const auto hopeless = make_stage(story.context, 0, "2", std::int64_t{1} << 59);
    REQUIRE_FALSE(hopeless);
    CHECK(hopeless.error().code == ErrorCode::full);
    CHECK(hopeless.error().message.find(story.context.spool) != std::string::npos);
}

TEST_CASE("the kind of what keeps a checkpoint from its storage is told with it") {
    UploadStory story;
    story.write("a.pt", "first");
    CHECK(upload(story.context, story.order()).reason == "");
    remove_tree(story.checkpoint("a.pt"));
    CHECK(upload(story.context, story.order()).reason == "storage_failed");
    CHECK(storage_reason(storage::disk::failure("writing", "/runs/a", ENOSPC).code) == "storage_full");
    CHECK(storage_reason(storage::disk::failure("writing", "/runs/a", EDQUOT).code) == "storage_full");
    CHECK(storage_reason(storage::disk::failure("writing", "/runs/a", EROFS).code) == "storage_refused");
    CHECK(storage_reason(storage::disk::failure("writing", "/runs/a", EACCES).code) == "storage_refused");
    CHECK(storage_reason(storage::disk::failure("writing", "/runs/a", ESTALE).code) == "storage_unreachable");
    CHECK(storage_reason(storage::disk::failure("writing", "/runs/a", ENOENT).code) == "storage_gone");
    CHECK(storage_reason(storage::disk::failure("writing", "/runs/a", EIO).code) == "storage_failed");
    CHECK(storage_reason(ErrorCode::timed_out) == "storage_unreachable");
}

TEST_CASE("an upload whose agent died before it could say so names the same files again, if they are there") {
    UploadStory story;
    story.write("a.pt", "first");
    const Uploaded first = upload(story.context, story.order());
    REQUIRE(first.why == "");

    const Uploaded again = upload(story.context, story.order());
    CHECK(again.why == "");
    CHECK(again.files == first.files);

    remove_tree(story.checkpoint("a.pt"));
    const Uploaded gone = upload(story.context, story.order());
    CHECK(gone.why.find("a.pt") != std::string::npos);
    CHECK(gone.files.empty());
}

TEST_CASE("the files of a removed run go when run.json says that they are its own, and no others") {
    UploadStory story;
    const std::string run = story.folder.path + "/runs/digits";
    REQUIRE(make_directory(run + "/checkpoint_000001-a001", 0755));
    std::ofstream(run + "/checkpoint_000001-a001/model.pt") << "weights";
    std::ofstream(run + "/run.json") << R"({"cluster_id":"c0ffee","run_id":"c0ffee-17"})";
    const NodeFacts facts = story.facts();
    const std::string outside = story.folder.path + "/outside";
    REQUIRE(make_directory(outside, 0755));
    std::ofstream(outside + "/precious") << "mine";
    std::filesystem::create_directory_symlink(outside, run + "/checkpoint_000001-a001/out");
    const std::string cut_off = story.folder.path + "/runs/.rtrain-tmp-removed-digits-0123456789abcdef";
    const std::string of_another = story.folder.path + "/runs/.rtrain-tmp-removed-digits-2-0123456789abcdef";
    REQUIRE((make_directory(cut_off + "/logs", 0755) && make_directory(of_another, 0755)));
    protocol::Clear order{.id = 7,
                          .cluster_id = "c0ffee",
                          .run_ids = {"c0ffee-18"},
                          .run_name = "digits",
                          .storage_path = story.folder.path + "/runs",
                          .access = {.user = "nobody-of-this-machine"}};
    const auto left_alone = [&] {
        const protocol::Cleared cleared = clear_run(facts, order);
        return cleared == protocol::Cleared{.id = 7} &&
               std::filesystem::exists(run + "/checkpoint_000001-a001/model.pt");
    };

    CHECK(left_alone());
    order.run_ids = {};  // any run, but of another cluster
    order.cluster_id = "decaf";
    CHECK(left_alone());
    order.cluster_id = "c0ffee";
    order.run_ids = {"c0ffee-18", "c0ffee-17"};
    CHECK(clear_run(facts, order) == protocol::Cleared{.id = 7, .removed = true});
    CHECK_FALSE(std::filesystem::exists(run));
    CHECK_FALSE(std::filesystem::exists(cut_off));
    CHECK(std::filesystem::exists(of_another));
    CHECK(std::filesystem::exists(outside + "/precious"));         // no link is followed
    CHECK(clear_run(facts, order) == protocol::Cleared{.id = 7});  // nothing is left
}

TEST_CASE("root removes the files of a removed run with the rights of its user, and of nobody else") {
    const passwd* entry = ::getpwnam("daemon");
    if (::geteuid() != 0 || entry == nullptr) {
        WARN("not tried: it needs root and a user 'daemon'");
        return;
    }
    const UploadStory story;
    const std::string runs = story.folder.path + "/runs", run = runs + "/digits";
    REQUIRE(::chmod(story.folder.path.c_str(), 0755) == 0);
    REQUIRE(make_directory(run, 0755));
    std::ofstream(run + "/run.json") << R"({"cluster_id":"c0ffee","run_id":"c0ffee-17","user":"daemon"})";
    NodeFacts facts = story.facts();
    facts.may_run_as_root = false;
    protocol::Clear order{
        .id = 7, .cluster_id = "c0ffee", .run_ids = {"c0ffee-17"}, .run_name = "digits", .storage_path = runs};
    const auto refused = [&] {
        const protocol::Cleared cleared = clear_run(facts, order);
        return !cleared.removed && !cleared.error.empty() && std::filesystem::exists(run + "/run.json");
    };
    CHECK(refused());  // without a user, root would do it
    order.access.user = "daemon";
    CHECK(refused());  // the directory is root's
    REQUIRE(::chown(run.c_str(), entry->pw_uid, entry->pw_gid) == 0);
    CHECK(refused());  // the directory above is root's
    order.access.user = "nobody-of-this-machine";
    CHECK(refused());
    order.access.user = "daemon";
    REQUIRE(::chown(runs.c_str(), entry->pw_uid, entry->pw_gid) == 0);
    CHECK(clear_run(facts, order) == protocol::Cleared{.id = 7, .removed = true});
    CHECK_FALSE(std::filesystem::exists(run));
}

TEST_CASE("root gives away the run directory whose run.json it has read, however names are exchanged meanwhile") {
    const passwd* entry = ::getpwnam("daemon");
    if (::geteuid() != 0 || entry == nullptr) {
        WARN("not tried: it needs root and a user 'daemon'");
        return;
    }
    const Folder folder;
    const auto make_run = [&](const std::string& directory, const std::string& user, uid_t owner) {
        const std::string run = folder.path + "/" + directory + "/bert";
        REQUIRE(make_directory(run, 0755));
        std::ofstream(run + "/run.json")
            << R"({"name":"bert","cluster_id":"c0ffee","run_id":"c0ffee-1","job":{},"code_sha256":"","wall_ms":1,"user":")"
            << user << "\"}";
        for (const std::string& one : {run + "/run.json", run, folder.path + "/" + directory})
            REQUIRE(::chown(one.c_str(), owner, 0) == 0);
    };
    make_run("shared", "ana", 0);
    make_run("own", "daemon", entry->pw_uid);
    const WorkerUser user{.uid = entry->pw_uid, .gid = entry->pw_gid, .name = "daemon"};
    CHECK(handed_over(folder.path + "/shared", user).ok());  // the user cannot reach it, so nothing is revealed
    REQUIRE(::chmod(folder.path.c_str(), 0755) == 0);
    CHECK(handed_over(folder.path + "/shared", user).error().code == ErrorCode::unauthorised);
    const std::string path = folder.path + "/path", other = folder.path + "/other";
    std::filesystem::create_directory_symlink(folder.path + "/shared", path);
    std::filesystem::create_directory_symlink(folder.path + "/own", other);
    std::atomic<bool> enough{false};
    std::thread exchange([&] {
        while (!enough) ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
    });
    struct stat seen{};
    // Both outcomes happen many times, however the two threads share processors.
    int refused = 0, passed = 0;
    const std::string victim = folder.path + "/shared/bert";
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (seen.st_uid == 0 && std::min(refused, passed) < 10'000 && std::chrono::steady_clock::now() < until) {
        (handed_over(path, user) ? passed : refused) += 1;
        ::stat(victim.c_str(), &seen);
    }
    enough = true;
    exchange.join();
    CHECK(seen.st_uid == 0);
    CHECK(std::min(refused, passed) >= 10'000);
}

TEST_CASE(
    "a run of root's is given to its user with the checkpoints whose names are claimed, and not with other "
    "directories") {
    const passwd* entry = ::getpwnam("daemon");
    if (::geteuid() != 0 || entry == nullptr) {
        WARN("not tried: it needs root and a user 'daemon'");
        return;
    }
    const Folder folder;
    REQUIRE(::chmod(folder.path.c_str(), 0755) == 0);
    auto store = std::move(storage::open_file_store(folder.path)).value();
    REQUIRE(*storage::create_run(*store, {.name = "bert", .user = "daemon"}));
    REQUIRE(*storage::claim_directory(*store, "bert", "best", {.attempt = 1, .report = 1}));
    REQUIRE(store->put("bert/best/model.pt", "weights"));
    REQUIRE(*store->create("bert/names/epochs/1/ckpt", R"({"attempt": 1, "report": 2})"));
    REQUIRE(store->put("bert/epochs/1/ckpt/model.pt", "weights"));
    const WorkerUser user{.uid = entry->pw_uid, .gid = entry->pw_gid, .name = "daemon"};
    for (const char* others : {"plots", "epochs/plots", "epochs/1/run.json", "epochs/1/x-a001"}) {
        REQUIRE(store->put("bert/" + std::string(others) + "/loss.png", "png"));
        CHECK(handed_over(folder.path, user).error().message.find("not all of a run") != std::string::npos);
        std::filesystem::remove_all(folder.path + "/bert/" + others);
    }
    CHECK(handed_over(folder.path, user).ok());
    for (const char* one : {"", "/run.json", "/best/model.pt", "/names/best", "/epochs/1/ckpt/model.pt", "/epochs"}) {
        struct stat seen{};
        REQUIRE(::stat((folder.path + "/bert" + one).c_str(), &seen) == 0);
        CHECK(seen.st_uid == entry->pw_uid);
    }
}

TEST_CASE("a link in the place of a run's directory is refused, and what it points to stays") {
    UploadStory story;
    const std::string elsewhere = story.folder.path + "/elsewhere", run = story.folder.path + "/runs/digits";
    REQUIRE(make_directory(elsewhere, 0755));
    std::ofstream(elsewhere + "/run.json") << R"({"cluster_id":"c0ffee","run_id":"c0ffee-17"})";
    std::filesystem::create_directory_symlink(elsewhere, run);
    const NodeFacts facts = story.facts();
    const protocol::Cleared cleared = clear_run(facts, {.id = 7,
                                                        .cluster_id = "c0ffee",
                                                        .run_ids = {"c0ffee-17"},
                                                        .run_name = "digits",
                                                        .storage_path = story.folder.path + "/runs",
                                                        .access = {.user = "nobody-of-this-machine"}});
    CHECK(cleared.error.find("is a link") != std::string::npos);
    CHECK_FALSE(cleared.removed);
    CHECK((std::filesystem::is_symlink(run) && std::filesystem::exists(elsewhere + "/run.json")));
}

TEST_CASE("log files of the workers' own naming come along, and nothing that only looks like one") {
    const UploadStory story;
    const std::string scratch = story.folder.path + "/node/scratch", logs = scratch + "/" + named_logs_folder;
    CHECK(copy_named_logs(story.context, scratch, "digits/logs"));  // there are no such logs

    REQUIRE(make_directory(logs, 0755));
    std::ofstream(logs + "/rank-00000-mine.txt") << "said";
    std::ofstream(logs + "/rank-00001-empty.txt");
    std::ofstream(logs + "/rank-00000.out") << "not the rank's own stream";
    std::ofstream(logs + "/other.txt") << "of no rank";
    std::ofstream(story.folder.path + "/secret") << "of somebody else";
    std::filesystem::create_symlink(story.folder.path + "/secret", logs + "/rank-00000-link");
    std::filesystem::create_hard_link(story.folder.path + "/secret", logs + "/rank-00000-hard");
    std::filesystem::create_directory(logs + "/rank-00000-folder");
    REQUIRE(copy_named_logs(story.context, scratch, "digits/logs"));
    CHECK(*read_whole(story.folder.path + "/runs/digits/logs/rank-00000-mine.txt") == "said");
    const std::filesystem::directory_iterator copied(story.folder.path + "/runs/digits/logs");
    CHECK(std::distance(begin(copied), end(copied)) == 1);

    std::filesystem::rename(logs, story.folder.path + "/elsewhere");
    std::filesystem::create_directory_symlink(story.folder.path + "/elsewhere", logs);
    REQUIRE(copy_named_logs(story.context, scratch, "digits/linked"));
    CHECK_FALSE(std::filesystem::exists(story.folder.path + "/runs/digits/linked"));
}

TEST_CASE("a report's line in the journal holds the metrics of its ranks, on one line whatever they look like") {
    const JournalMetrics report{.attempt = attempt_1,
                                .index = 3,
                                .wall_ms = 1'700'000'000'000,
                                .metrics_json = {{0, "{\n  \"loss\": 0.5\r\n}"}, {2, "{}"}, {10, "{\"a\":[1]}"}}};
    CHECK(journal_line(report) ==
          "{\"index\":3,\"metrics\":{\"0\":{   \"loss\": 0.5  },\"2\":{},\"10\":{\"a\":[1]}},"
          "\"wall_ms\":1700000000000}\n");
}

TEST_CASE("an upload never touches what is committed, and knows its own commit again") {
    UploadStory story;
    story.write("a.pt", "first");
    const Uploaded first = upload(story.context, story.order());
    REQUIRE(first.why.empty());
    storage::Manifest manifest{.directory = "checkpoint_000001-a001", .attempt = 1, .report = 1, .world_size = 1};
    for (const auto& file : first.files)
        manifest.files.push_back({.path = file.path, .bytes = file.bytes, .sha256 = file.sha256, .rank = file.rank});
    REQUIRE(commit(story.context, {.attempt = attempt_1, .manifest = manifest}).why.empty());
    CHECK(upload(story.context, story.order()).files == first.files);

    REQUIRE(make_directory(story.stage, 0755));
    story.write("a.pt", "other");
    Upload again = story.order();
    again.index = 2;
    const Uploaded refused = upload(story.context, again);
    CHECK(refused.reason == name_taken);
    CHECK(refused.why.find("digits/checkpoint_000001-a001 is committed already") != std::string::npos);
    CHECK(*read_whole(story.checkpoint("a.pt")) == "first");
    manifest.report = 2;
    CHECK(commit(story.context, {.attempt = attempt_1, .manifest = manifest}).reason == name_taken);
}

namespace {

// A rank that has put its files into the run's directory itself has claimed it, and stages a note with its path.
struct InPlace : UploadStory {
    std::string given = folder.path + "/runs/digits/placed";
    InPlace() {
        REQUIRE(*storage::create_run(*context.store, {.name = "digits"}));
        REQUIRE(storage::claim_attempt(*context.store, "digits", {.number = 1}, ""));
        REQUIRE(*storage::claim_directory(*context.store, "digits", "placed", {.attempt = 1, .report = 1}));
        REQUIRE(make_directory(given, 0755));
        std::ofstream(given + "/early.pt") << "early";
        write(".rtrain-in-place", given);
    }
    ListStaged listing() const {
        auto order = UploadStory::listing();
        order.number = 1;
        return order;
    }
    Upload order() const {
        auto order = UploadStory::order();
        order.directory = "placed";
        return order;
    }
};

std::vector<std::string> names(const std::vector<protocol::StagedFile>& files) {
    std::vector<std::string> out;
    for (const auto& file : files) out.push_back(file.path);
    return out;
}

}  // namespace

TEST_CASE("files in the run's directory stay where they are, with what a slow rank put there meanwhile") {
    InPlace story;
    const StagedListed listed = list_staged(story.context, story.listing());
    CHECK(names(listed.files) == std::vector<std::string>{"early.pt"});
    CHECK((listed.in_place == "placed" && listed.exact));
    std::ofstream(story.given + "/late.pt") << "late";
    const Uploaded done = upload(story.context, story.order());
    CHECK(done.why == "");
    CHECK(names(done.files) == std::vector<std::string>{"early.pt", "late.pt"});
    CHECK(read_whole(story.given + "/late.pt").value() == "late");
    CHECK_FALSE(std::filesystem::exists(story.stage));
    CHECK(upload(story.context, story.order()).files == done.files);  // repeated, since its answer was lost
    storage::Manifest manifest{.directory = "placed", .attempt = 1, .report = 1, .world_size = 1};
    for (const auto& file : done.files) manifest.files.push_back({file.path, file.bytes, file.sha256, file.rank});
    REQUIRE(commit(story.context, {attempt_1, manifest}).why == "");
    const auto newest = storage::newest_sound(*story.context.store, "digits");
    REQUIRE((newest && newest->manifest));
    CHECK(newest->manifest->directory == "placed");
    std::ofstream(story.given + "/late.pt") << "LATE";  // a late write, which damages the checkpoint
    const auto sound = storage::newest_sound(*story.context.store, "digits");
    CHECK_FALSE(sound->manifest);
    REQUIRE(sound->damaged.size() == 1);
    CHECK(sound->damaged[0].find("placed: late.pt: content has changed") == 0);
}

TEST_CASE("files deeper in the run's directory stay where they are, under their path from the run") {
    InPlace story;
    const std::string deep = story.folder.path + "/runs/digits/epochs/1/ckpt";
    const std::string name = "epochs/1/ckpt";
    std::filesystem::create_directories(deep);
    std::ofstream(deep + "/model.pt") << "weights";
    REQUIRE(*story.context.store->create("digits/names/" + name, R"({"attempt": 1, "report": 1})"));
    story.write(".rtrain-in-place", "/as/its/rank/sees/it/epochs/1/ckpt" + std::string(1, '\0') + name);
    const StagedListed listed = list_staged(story.context, story.listing());
    CHECK(listed.why == "");
    CHECK((listed.in_place == name && listed.exact && names(listed.files) == std::vector<std::string>{"model.pt"}));
    auto order = story.order();
    order.directory = name;
    const Uploaded done = upload(story.context, order);
    CHECK(done.why == "");
    CHECK(upload(story.context, order).files == done.files);  // repeated, since its answer was lost
    storage::Manifest manifest{.directory = name, .attempt = 1, .report = 1, .world_size = 1};
    for (const auto& file : done.files) manifest.files.push_back({file.path, file.bytes, file.sha256, file.rank});
    REQUIRE(commit(story.context, {attempt_1, manifest}).why == "");
    CHECK(storage::newest_sound(*story.context.store, "digits")->manifest->directory == name);
    CHECK(std::filesystem::exists(deep + "/.manifest.json"));
}

TEST_CASE("a note that leads out of the run, through a link, or to what is not claimed brings nothing") {
    InPlace story;
    const std::string run = story.folder.path + "/runs/digits";
    std::filesystem::create_directories(run + "/epochs/1");
    std::ofstream(run + "/epochs/1/model.pt") << "weights";
    std::filesystem::create_directories(story.folder.path + "/outside/1");
    std::ofstream(story.folder.path + "/outside/1/secret") << "secret";
    std::filesystem::create_directory_symlink(story.folder.path + "/outside", run + "/led");
    REQUIRE(*story.context.store->create("digits/names/led/1", R"({"attempt": 1, "report": 1})"));
    REQUIRE(*story.context.store->create("digits/names/other/1", R"({"attempt": 1, "report": 2})"));
    for (const char* name : {"epochs/1", "other/1", "led/1", "../outside/1", "epochs/../../../outside/1", "/epochs/1",
                             "attempts/000001", "placed/sub", ""}) {
        INFO(name);
        story.write(".rtrain-in-place", run + "/placed" + std::string(1, '\0') + name);
        const StagedListed listed = list_staged(story.context, story.listing());
        CHECK_FALSE(listed.why.empty());
        CHECK(listed.files.empty());
        auto order = story.order();
        order.directory = name;
        CHECK_FALSE(upload(story.context, order).why.empty());
    }
    CHECK(*read_whole(story.folder.path + "/outside/1/secret") == "secret");
}

TEST_CASE("a link in a directory of the run becomes the content of the file beside it, also by its whole path") {
    InPlace story;
    std::filesystem::create_symlink(story.given + "/early.pt", story.given + "/latest.pt");
    CHECK(list_staged(story.context, story.listing()).files.size() == 2);
    CHECK(upload(story.context, story.order()).why == "");
    CHECK(read_whole(story.given + "/latest.pt").value() == "early");
    CHECK_FALSE(std::filesystem::is_symlink(story.given + "/latest.pt"));
    CHECK(read_whole(story.given + "/early.pt").value() == "early");
    InPlace leading_out;
    std::filesystem::create_symlink("/etc/passwd", leading_out.given + "/out");
    CHECK(list_staged(leading_out.context, leading_out.listing()).why.find("'out'") != std::string::npos);
}

TEST_CASE("only a directory that is claimed for the report is one in its place") {
    InPlace story;
    auto later = story.listing();
    later.index = 2;
    CHECK(list_staged(story.context, later).why.find("\"placed\" is not the directory of report 2") !=
          std::string::npos);
    auto other = story.order();
    other.directory = "checkpoint_000001-a001";
    const Uploaded refused = upload(story.context, other);
    CHECK(refused.why.find("files lie in placed, and the checkpoint is checkpoint_000001-a001") != std::string::npos);
    CHECK(refused.reason == name_taken);
    for (const char* elsewhere : {"/node", "/runs/digits/attempts", "/runs/digits/..", "/"}) {
        story.write(".rtrain-in-place", story.folder.path + elsewhere);
        CHECK_FALSE(list_staged(story.context, story.listing()).why.empty());
        CHECK_FALSE(upload(story.context, story.order()).why.empty());
    }
    REQUIRE(*storage::claim_directory(*story.context.store, "digits", "gone", {.attempt = 1, .report = 1}));
    story.write(".rtrain-in-place", story.folder.path + "/runs/digits/gone");
    CHECK(list_staged(story.context, story.listing()).why.find("No such file") != std::string::npos);
    const std::string second = story.context.spool + "/rank-00001-1";
    REQUIRE(make_directory(second, 0755));
    std::ofstream(second + "/.rtrain-in-place") << story.given;
    auto both = story.listing();
    both.staged[1] = second;
    CHECK(list_staged(story.context, both).why.find("ranks bring the directories gone and placed of the run") == 0);
}

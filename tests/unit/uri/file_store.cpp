// The Store of a directory: files are written atomically, names are exclusive, and errors name full disks.

#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "storage/uri/files/beneath.hpp"
#include "storage/uri/files/removal.hpp"
#include "storage/uri/files/store.hpp"
#include "storage/uri/files/tree.hpp"
#include "storage/uri/open_store.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Store> store_at(const std::string& path) {
    auto store = open_file_store(path);
    REQUIRE(store.ok());
    return std::move(store).value();
}
std::vector<std::string> paths(const std::vector<StoreEntry>& entries) {
    std::vector<std::string> out;
    for (const auto& entry : entries) out.push_back(entry.path);
    return out;
}

}  // namespace

TEST_CASE("reading makes no directory") {
    Folder folder;
    CHECK(store_at(folder.path + "/not/yet/there")->list("")->empty());
    CHECK_FALSE(fs::exists(folder.path + "/not"));
}

TEST_CASE("a name that becomes a file while it is listed is there or is not, and no error") {
    Folder folder;
    auto store = store_at(folder.path);
    REQUIRE(store->put("names/other", "x").ok());
    for (int round = 0; round < 400; ++round) {
        std::jthread creating([&] { std::ofstream(folder.path + "/names/best") << "1"; });
        for (bool listed = false; !listed;) {
            const auto entries = store->list("names/best");
            if (!entries) FAIL(entries.error().message);
            listed = !entries->empty();
        }
        creating.join();
        REQUIRE(store->remove("names/best").ok());
    }
}

TEST_CASE("appended pieces follow one another") {
    Folder folder;
    auto store = store_at(folder.path);
    REQUIRE(store->append("m.jsonl", "{\"a\":1}\n").ok());
    REQUIRE(store->append("m.jsonl", "{\"a\":2}\n").ok());
    CHECK(*store->get("m.jsonl") == "{\"a\":1}\n{\"a\":2}\n");
}

TEST_CASE("a file given away is moved; one that is kept is copied and may be written again") {
    Folder folder;
    auto store = store_at(folder.path + "/store");
    write_to_file(folder.path + "/given", "weights");
    write_to_file(folder.path + "/kept", "weights");
    std::int64_t uploaded = 0;

    REQUIRE(store->put_file(folder.path + "/given", "c/given", true, [&](auto done, auto) { uploaded = done; }).ok());
    REQUIRE(store->put_file(folder.path + "/kept", "c/kept", false, {}).ok());
    write_to_file(folder.path + "/kept", "SCRIBBLE");

    CHECK(uploaded == 7);
    CHECK_FALSE(fs::exists(folder.path + "/given"));
    CHECK(*store->get("c/given") == "weights");
    CHECK(*store->get("c/kept") == "weights");
    REQUIRE(store->get_file("c/kept", folder.path + "/back/kept", {}).ok());
    CHECK(bytes_of_file(folder.path + "/back/kept") == "weights");
}

TEST_CASE("a file that is written on and on while it is copied is copied as it was at the beginning") {
    Folder folder;
    auto store = store_at(folder.path + "/store");
    std::ofstream(folder.path + "/grows") << "a";
    int more = 100;
    const auto grow = [&](std::int64_t, std::int64_t) {
        if (more-- > 0) std::ofstream(folder.path + "/grows", std::ios::app) << "b";
    };
    REQUIRE(store->put_file(folder.path + "/grows", "run/x", false, grow).ok());
    CHECK(*store->get("run/x") == "a");
}

TEST_CASE("a file with a second name is copied although it was given away: the caller may still write into it") {
    Folder folder;
    auto store = store_at(folder.path + "/store");
    write_to_file(folder.path + "/given", "weights");
    fs::create_hard_link(folder.path + "/given", folder.path + "/other");
    REQUIRE(store->put_file(folder.path + "/given", "w", true, {}).ok());
    write_to_file(folder.path + "/other", "SCRIBBLE");
    CHECK(*store->get("w") == "weights");
}

TEST_CASE("an upload whose source is not there leaves nothing behind") {
    Folder folder;
    auto store = store_at(folder.path);
    const auto status = store->put_file(folder.path + "/absent", "c/w", false, {});
    CHECK(status.error().code == ErrorCode::not_found);
    CHECK(status.error().message.find(folder.path + "/absent") != std::string::npos);
    CHECK(store->list("")->empty());
}

TEST_CASE(
    "a directory that is set aside is neither listed nor in the way, comes back, and goes with what was cut off") {
    Folder folder;
    auto store = store_at(folder.path);
    REQUIRE(store->put("digits/run.json", "{}").ok());
    const Descriptor top = std::move(open_top(folder.path)).value();
    const auto opened = [&] { return std::move(open_beneath(top, "digits", O_RDONLY | O_DIRECTORY)).value(); };
    CHECK(set_aside(top, "absent", opened())->empty());
    const std::string aside = *set_aside(top, "digits", opened());
    CHECK(store->list("")->empty());
    put_back(top, aside, "digits");
    CHECK(store->list("")->size() == 1);

    REQUIRE_FALSE(set_aside(top, "digits", opened())->empty());  // the process ends here
    REQUIRE(store->put("digits/run.json", "{}").ok());
    put_back(top, *set_aside(top, "digits", opened()), "other");
    REQUIRE(store->put("digits/run.json", "new").ok());
    CHECK(*remove_aside(top, "digits"));
    CHECK_FALSE(*remove_aside(top, "digits"));
    CHECK(*store->get("digits/run.json") == "new");
    CHECK(store->list("")->size() == 2);
    CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 2);
    const Descriptor held = opened();
    REQUIRE_FALSE(set_aside(top, "digits", held)->empty());
    fs::create_directory(folder.path + "/digits");
    // The directory is another one than the caller has checked.
    CHECK(set_aside(top, "digits", held).error().code == ErrorCode::conflict);
    CHECK(fs::exists(folder.path + "/digits"));
    CHECK(*sweep_aside(folder.path));
    CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 2);
    CHECK_FALSE(*sweep_aside(folder.path + "/absent"));
}

TEST_CASE("directories that their owner has made read-only are removed with what is in them") {
    Folder folder;
    auto store = store_at(folder.path);
    REQUIRE(store->put("c/tokenizer/vocab/words.txt", "a").ok());
    for (const char* one : {"c/tokenizer/vocab", "c/tokenizer"})
        fs::permissions(folder.path + "/" + one, fs::perms::owner_read | fs::perms::owner_exec);
    // Root may write there anyway. So the test changes the thread's user to the owner.
    if (::geteuid() == 0) {
        for (const char* one : {"", "/c", "/c/tokenizer", "/c/tokenizer/vocab", "/c/tokenizer/vocab/words.txt"})
            REQUIRE(::lchown((folder.path + one).c_str(), 1, 1) == 0);
        ::setfsuid(1);
    }
    const Status removed = store->remove_tree("c");
    ::setfsuid(::geteuid());
    CHECK(removed);
    CHECK_FALSE(fs::exists(folder.path + "/c"));
}

TEST_CASE("a tree that is nested deeper than descriptors may be open is measured and removed") {
    constexpr int levels = 3'000;
    Folder folder;
    auto store = store_at(folder.path);
    Descriptor at(::open(folder.path.c_str(), O_RDONLY | O_DIRECTORY));
    for (int level = 0; level < levels; ++level) {
        REQUIRE(::mkdirat(at.number(), "d", 0700) == 0);
        at = Descriptor(::openat(at.number(), "d", O_RDONLY | O_DIRECTORY));
        REQUIRE(at.open());
    }
    const std::string bytes(100'000, 'x');
    const Descriptor file(::openat(at.number(), "file", O_WRONLY | O_CREAT, 0600));
    REQUIRE(::write(file.number(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    REQUIRE(::fsync(file.number()) == 0);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    const std::int64_t measured = bytes_below(folder.path);
    const Status removed = store->remove_tree("d");
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(measured >= static_cast<std::int64_t>(bytes.size()));
    CHECK(removed);
    CHECK_FALSE(fs::exists(folder.path + "/d"));
}

TEST_CASE("a directory of more names than are read at a time is removed; what cannot be does not keep the rest") {
    Folder folder;
    auto store = store_at(folder.path);
    REQUIRE(store->put("d/kept/file", "a").ok());
    for (int number = 0; number < 2'500; ++number) std::ofstream(folder.path + "/d/" + std::to_string(number));
    // Only the owner of a directory can change its permissions.
    if (::geteuid() == 0) {
        for (const char* one : {"", "/d"}) REQUIRE(::lchown((folder.path + one).c_str(), 1, 1) == 0);
        ::setfsuid(1);
        const Status removed = store->remove_tree("d");
        ::setfsuid(::geteuid());
        REQUIRE_FALSE(removed);
        CHECK(removed.error().code == ErrorCode::unauthorised);
        CHECK(removed.error().message.find("/d/kept/file") != std::string::npos);
        CHECK(std::distance(fs::directory_iterator(folder.path + "/d"), {}) == 1);
    }
    CHECK(store->remove_tree("d"));
    CHECK_FALSE(fs::exists(folder.path + "/d"));
}

TEST_CASE("a file is read whole up to 64 MiB, or to the bound that its reader names") {
    Folder folder;
    auto store = store_at(folder.path);
    REQUIRE(store->put("run.json", "{}").ok());
    fs::resize_file(folder.path + "/run.json", 64 << 20);
    CHECK(store->get("run.json")->size() == 64u << 20);
    fs::resize_file(folder.path + "/run.json", (64 << 20) + 1);
    const auto refused = store->get("run.json");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::damaged);
    CHECK(refused.error().message.find(folder.path + "/run.json: it has more than 64 MiB") != std::string::npos);
    CHECK(refused.error().next != "");
    CHECK(store->get("run.json", 65 << 20).ok());
}

TEST_CASE("storage paths are compared by what they mean") {
    CHECK(same_place("/mnt/runs", "file:///mnt/runs/"));
    CHECK(same_place("", "cluster://"));
    CHECK_FALSE(same_place("/mnt/runs", "/mnt/run"));
    CHECK_FALSE(same_place("cluster://", "/mnt/runs"));
}

TEST_CASE("paths cannot leave the store") {
    Folder folder;
    auto store = store_at(folder.path + "/store");
    for (const std::string bad : {"", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", ".rtrain-tmp-1"}) {
        CAPTURE(bad);
        CHECK(store->put(bad, "x").error().code == ErrorCode::invalid);
        CHECK(store->get(bad).error().code == ErrorCode::invalid);
        CHECK(store->remove_tree(bad).error().code == ErrorCode::invalid);
    }
    CHECK(store->put(std::string("a\0b", 3), "x").error().code == ErrorCode::invalid);
}

TEST_CASE("beneath the storage path no link is followed: by no reader, writer, list or removal") {
    Folder folder;
    fs::create_directory(folder.path + "/real");
    fs::create_directory_symlink(folder.path + "/real", folder.path + "/store");  // a link of the operator is followed
    fs::create_directory(folder.path + "/outside");
    write_to_file(folder.path + "/outside/secret", "outside");
    auto store = store_at(folder.path + "/store");
    REQUIRE(store->put("mine/file", "inside").ok());
    fs::create_directory_symlink(folder.path + "/outside", folder.path + "/real/run");
    fs::create_symlink(folder.path + "/outside/secret", folder.path + "/real/mine/link");
    write_to_file(folder.path + "/given", "weights");

    const auto refused = [&](const Status& status) {
        REQUIRE_FALSE(status.ok());
        CHECK(status.error().code == ErrorCode::unauthorised);
        CHECK(status.error().message.find("is a link") != std::string::npos);
    };
    const auto status_of = [](const auto& result) { return result ? Status(Done{}) : Status(result.error()); };
    refused(store->put("run/new", "x"));
    refused(status_of(store->create("run/new", "x")));
    refused(store->append("run/secret", "x"));
    refused(store->append("mine/link", "x"));
    refused(store->put_file(folder.path + "/given", "run/new", true, {}));
    refused(store->put_file(folder.path + "/given", "run/new", false, {}));
    refused(status_of(store->get("run/secret")));
    refused(status_of(store->get("mine/link")));
    refused(store->get_file("mine/link", folder.path + "/back", {}));
    refused(status_of(store->list("run")));
    refused(store->remove("run/secret"));
    refused(store->remove_tree("run/secret"));
    CHECK(paths(*store->list("")) == std::vector<std::string>{"mine/file"});
    REQUIRE(store->put("mine/link", "a file of its own").ok());  // replaces the link itself, not its target
    REQUIRE(store->remove_tree("run").ok());                     // removes the link
    REQUIRE(store->remove_tree("mine").ok());
    CHECK(bytes_of_file(folder.path + "/outside/secret") == "outside");
    CHECK(std::distance(fs::directory_iterator(folder.path + "/outside"), {}) == 1);
    CHECK(fs::is_empty(folder.path + "/real"));
}

TEST_CASE("what is no plain file is neither waited for nor read") {
    Folder folder;
    auto store = store_at(folder.path);
    REQUIRE(::mkfifo((folder.path + "/pipe").c_str(), 0600) == 0);
    CHECK(store->get("pipe").error().message.find("not a regular file") != std::string::npos);
    CHECK_FALSE(store->append("pipe", "x").ok());
    CHECK_FALSE(store->put_file(folder.path + "/pipe", "copy", false, {}).ok());
    std::string deep = folder.path;
    for (int level = 0; level < 200; ++level) fs::create_directory(deep += "/d");
    CHECK(store->list("").error().message.find("nested deeper") != std::string::npos);
    fs::remove_all(folder.path + "/d");
}

TEST_CASE("a file where a directory should be is named") {
    Folder folder;
    write_to_file(folder.path + "/runs", "");
    CHECK(open_file_store(folder.path + "/runs").error().message.find("is a file") != std::string::npos);
    const auto status = store_at(folder.path)->put("runs/x", "1");
    CHECK(status.error().message.find(folder.path + "/runs") != std::string::npos);
}

TEST_CASE("a full disk is named with its free bytes, leaves no half file, and works again when there is room") {
    Folder folder;
    const std::string disk = folder.path + "/disk";
    fs::create_directory(disk);
    if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0) {
        WARN("skipped: mounting a small tmpfs needs root");
        return;
    }
    struct Unmount {
        std::string path;
        ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
    } unmount{disk};
    auto store = store_at(disk + "/runs");
    REQUIRE(store->append("journal", "line\n").ok());
    write_to_file(folder.path + "/big", std::string(2 << 20, 'x'));

    const auto put = store->put("a", std::string(2 << 20, 'x'));
    const auto file = store->put_file(folder.path + "/big", "b", false, {});
    const auto journal = store->append("journal", std::string(2 << 20, 'x'));

    for (const Status& status : {put, file, journal}) {
        REQUIRE_FALSE(status.ok());
        CHECK(status.error().code == ErrorCode::full);
        CHECK(status.error().message.find(disk + "/runs/") != std::string::npos);
        CHECK(status.error().message.find("of 1048576 bytes free there") != std::string::npos);
    }
    CHECK(*store->list("") == std::vector<StoreEntry>{{"journal", 5}});
    CHECK(std::distance(fs::directory_iterator(disk + "/runs"), {}) == 1);
    CHECK(store->put("a", "small").ok());
    CHECK(volatile_filesystem(disk + "/runs/to/come") == "tmpfs");
}

TEST_CASE("a file given away across file systems is copied, then removed") {
    if (volatile_filesystem("/dev/shm") != "tmpfs" || ::access("/dev/shm", W_OK) != 0) {
        WARN("skipped: /dev/shm is not a second file system here");
        return;
    }
    Folder folder;
    const std::string given = "/dev/shm/rtrain-given-" + std::to_string(::getpid());
    write_to_file(given, std::string(20 << 20, 'w'));
    REQUIRE(store_at(folder.path)->put_file(given, "w", true, {}).ok());
    CHECK_FALSE(fs::exists(given));
    CHECK(fs::file_size(folder.path + "/w") == 20 << 20);
}

TEST_CASE("a probe writes, reads back and removes; it says which path cannot be written") {
    Folder folder;
    auto store = store_at(folder.path);
    REQUIRE(probe(*store, "n1").ok());
    CHECK(fs::is_empty(folder.path));
    write_to_file(folder.path + "/file", "");
    auto blocked = open_file_store(folder.path + "/file/below");
    REQUIRE(blocked.ok());
    const auto status = probe(**blocked, "n1");
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find(folder.path + "/file") != std::string::npos);
}

TEST_CASE("storage paths: schemes, and what is wrong with the others") {
    CHECK(parse_uri("")->scheme == Scheme::cluster);
    CHECK(parse_uri("cluster://")->scheme == Scheme::cluster);
    CHECK(parse_uri("file:///mnt/a/")->path == "/mnt/a");
    CHECK(parse_uri("/mnt//a/./b")->path == "/mnt/a/b");
    CHECK(parse_uri("s3://bucket/prefix/")->path == "bucket/prefix");
    CHECK(parse_uri("gs://bucket")->scheme == Scheme::gs);
    CHECK(same_place("abfs://c/p", "az://c/p/"));
    CHECK_FALSE(same_place("abfss://c@acc.dfs.core.windows.net/p", "az://c/p"));
    CHECK_FALSE(same_place("s3://c/p", "gs://c/p"));
    CHECK(text_of(*parse_uri("abfss://c@acc.dfs.core.windows.net/p/")) == "abfss://c@acc.dfs.core.windows.net/p");
    CHECK(parse_uri("runs").error().message.find("not absolute") != std::string::npos);
    CHECK(parse_uri("file://host/x").error().code == ErrorCode::invalid);
    CHECK(parse_uri("s3://").error().message.find("no bucket") != std::string::npos);
    CHECK(parse_uri("ftp://x").error().message.find("ftp://") != std::string::npos);
    for (const char* bucket : {"s3://b/p", "gs://b/p", "az://c/p", "abfss://c@a.dfs.core.windows.net/p"})
        CHECK(open_file_store(bucket).error().message.find("not a directory") != std::string::npos);
}

}  // namespace rtrain::storage

// Paths beneath a directory: no link is followed, by the kernel's own walk and by ours.

#include "storage/uri/files/beneath.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;

std::string content(const Descriptor& file) {
    char text[64];
    const ssize_t got = ::read(file.number(), text, sizeof text);
    return got < 0 ? "" : std::string(text, static_cast<std::size_t>(got));
}

constexpr Walk both[] = {Walk::kernel, Walk::each_part};

TEST_CASE("a path beneath a directory is opened, and a missing one is not found", "[beneath]") {
    const Folder folder;
    fs::create_directories(folder.path + "/a/b");
    std::ofstream(folder.path + "/a/b/file") << "inside";
    const auto top = open_top(folder.path);
    REQUIRE(top.ok());
    for (const Walk walk : both) {
        const auto file = open_beneath_by(walk, *top, "a/b/file", O_RDONLY, 0);
        REQUIRE(file.ok());
        CHECK(content(*file) == "inside");
        CHECK(open_beneath_by(walk, *top, "a/x/file", O_RDONLY, 0).error().code == ErrorCode::not_found);
        CHECK(open_beneath_by(walk, *top, "", O_RDONLY | O_DIRECTORY, 0).ok());
        CHECK(open_beneath_by(walk, *top, walk == Walk::kernel ? "new1" : "new2", O_WRONLY | O_CREAT | O_EXCL, 0600)
                  .ok());
    }
}

TEST_CASE("a directory is reached by its name and by links, not by what /proc holds open", "[beneath]") {
    const Folder folder;
    fs::create_directories(folder.path + "/a/b");
    fs::create_directory_symlink("a/b", folder.path + "/link");
    const Descriptor held(::open((folder.path + "/a").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const std::string by_descriptor = "/proc/self/fd/" + std::to_string(held.number());
    for (const Walk walk : both) {
        for (const char* name : {"/a/b", "/link", "/a/../link"}) CHECK(open_top_by(walk, folder.path + name).ok());
        CHECK(open_top_by(walk, "/").ok());
        CHECK(open_top_by(walk, folder.path + "/x").error().code == ErrorCode::not_found);
    }
    CHECK(open_top_by(Walk::kernel, by_descriptor).error().code == ErrorCode::unauthorised);
    CHECK(open_top_by(Walk::kernel, "/proc/self/root" + folder.path).error().code == ErrorCode::unauthorised);
    // The fallback walk follows the text of links: its paths begin at this process's root.
    const auto walked = open_top_by(Walk::each_part, "/proc/self/root" + folder.path);
    REQUIRE(walked.ok());
    CHECK(open_beneath(*walked, "a/b", O_RDONLY).ok());
}

TEST_CASE("in a root, links lead to where they would lead for a process of that root", "[beneath]") {
    const Folder folder, outside;
    fs::create_directories(folder.path + "/usr/etc");
    std::ofstream(folder.path + "/usr/etc/file") << "inside";
    std::ofstream(outside.path + "/file") << "outside";
    fs::create_directory_symlink("/usr/etc", folder.path + "/etc");
    fs::create_directory_symlink("../../../usr/etc", folder.path + "/usr/up");
    fs::create_directory_symlink(outside.path, folder.path + "/out");
    fs::create_directory_symlink("/proc/self/fd", folder.path + "/usr/round");
    const auto root = open_top(folder.path);
    REQUIRE(root.ok());
    for (const char* path : {"etc/file", "usr/up/file", "usr/etc/file"}) {
        const auto file = open_in_root(*root, path, O_RDONLY);
        REQUIRE(file.ok());
        CHECK(content(*file) == "inside");
    }
    CHECK(open_in_root(*root, "out/file", O_RDONLY).error().code == ErrorCode::not_found);
    CHECK(open_in_root(*root, "../x", O_RDONLY).error().code == ErrorCode::invalid);
    CHECK(open_in_root(*root, "new", O_RDWR | O_CREAT).error().code == ErrorCode::invalid);
    // The fallback walk follows no links.
    const auto plain = open_in_root_by(Walk::each_part, *root, "usr/etc/file", O_RDONLY);
    REQUIRE(plain.ok());
    CHECK(content(*plain) == "inside");
    CHECK(open_in_root_by(Walk::each_part, *root, "etc/file", O_RDONLY).error().code == ErrorCode::unauthorised);
}

TEST_CASE("a link at any part of a path is refused and named", "[beneath]") {
    const Folder folder, outside;
    fs::create_directories(folder.path + "/a/b");
    std::ofstream(outside.path + "/secret") << "outside";
    fs::create_directory_symlink(outside.path, folder.path + "/a/out");
    fs::create_symlink(outside.path + "/secret", folder.path + "/a/b/file");
    fs::create_symlink("b", folder.path + "/a/inside");
    const auto top = open_top(folder.path);
    REQUIRE(top.ok());
    for (const Walk walk : both)
        for (const char* path : {"a/out/secret", "a/b/file", "a/inside/x", "a/out"})
            for (const int flags : {O_RDONLY, O_WRONLY | O_CREAT, O_PATH, O_RDONLY | O_DIRECTORY}) {
                const auto file = open_beneath_by(walk, *top, path, flags, 0600);
                REQUIRE(!file.ok());
                INFO(path << " " << flags << ": " << file.error().message);
                CHECK(file.error().code == ErrorCode::unauthorised);
                CHECK(file.error().message.find(folder.path + "/" + path) != std::string::npos);
            }
    CHECK(make_beneath(*top, "a/out/new").error().code == ErrorCode::unauthorised);
    CHECK(!fs::exists(outside.path + "/new"));
    CHECK(place_beneath(*top, "a/out/new").error().code == ErrorCode::unauthorised);
}

// Kernels before 5.6 answer ENOSYS, filters of containers EPERM.
bool forbid_openat2(int error) {
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{.len = sizeof rules / sizeof *rules, .filter = rules};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return false;
    open_how how{};
    how.flags = O_PATH;
    return ::syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how) == -1 && errno == error;
}

// Returns the first property that does not hold without openat2, tested in a child process; empty if all hold.
std::string wrong_without_openat2(int error, const std::string& inside) {
    if (!forbid_openat2(error)) return "openat2 is not forbidden";
    const auto top = open_top(inside + "-link");  // follows a link that an operator made
    if (!top) return top.error().message;
    const auto file = open_beneath(*top, "a/b/file", O_RDONLY);
    if (!file || content(*file) != "inside") return "a file is not read";
    if (!make_beneath(*top, "new/directory", 0700)) return "a directory is not made";
    const auto place = place_beneath(*top, "a/b/file");
    if (!place || place->name != "file") return "a parent directory is not found";
    if (open_beneath(*top, "a/x", O_RDONLY).error().code != ErrorCode::not_found) return "a missing name is there";
    for (const char* link : {"a/out/secret", "a/b/link", "a/out"}) {
        const auto led = open_beneath(*top, link, O_RDONLY);
        if (led || led.error().code != ErrorCode::unauthorised) return std::string(link) + " is followed";
    }
    if (make_beneath(*top, "a/out/new").ok()) return "a directory is made behind a link";
    return "";
}

TEST_CASE("where openat2 is forbidden, or not there, paths are walked, and links in them refused") {
    for (const int error : {ENOSYS, EPERM}) {
        const Folder folder, outside;
        const std::string inside = folder.path + "/inside";
        fs::create_directories(inside + "/a/b");
        fs::create_directory_symlink(inside, inside + "-link");
        std::ofstream(inside + "/a/b/file") << "inside";
        std::ofstream(outside.path + "/secret") << "outside";
        fs::create_directory_symlink(outside.path, inside + "/a/out");
        fs::create_symlink(outside.path + "/secret", inside + "/a/b/link");
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            const std::string wrong = wrong_without_openat2(error, inside);
            const ssize_t wrote = ::write(ends[1], wrong.data(), wrong.size());
            ::_exit(wrong.empty() && wrote == 0 ? 0 : 1);
        }
        const Descriptor from(ends[0]);
        ::close(ends[1]);
        const std::string wrong = content(from);
        int status = -1;
        REQUIRE(::waitpid(child, &status, 0) == child);
        INFO("errno " << error << ": " << wrong);
        CHECK(status == 0);
        CHECK(fs::is_directory(inside + "/new/directory"));
        CHECK_FALSE(fs::exists(outside.path + "/new"));
    }
}

TEST_CASE("paths with empty, '.' or '..' parts are no paths beneath a directory", "[beneath]") {
    const Folder folder;
    const auto top = open_top(folder.path);
    REQUIRE(top.ok());
    for (const Walk walk : both)
        for (const char* path : {"..", "a/..", "/etc", "a//b", "./a", "a/", "."})
            CHECK(open_beneath_by(walk, *top, path, O_RDONLY, 0).error().code == ErrorCode::invalid);
    CHECK(place_beneath(*top, "").error().code == ErrorCode::invalid);
}

TEST_CASE("directories are made beneath, with their parents", "[beneath]") {
    const Folder folder;
    const auto top = open_top(folder.path);
    REQUIRE(top.ok());
    REQUIRE(make_beneath(*top, "x/y/z", 0700).ok());
    struct stat seen{};
    REQUIRE(::stat((folder.path + "/x/y/z").c_str(), &seen) == 0);
    CHECK((seen.st_mode & 0777) == 0700);
    const auto place = place_beneath(*top, "x/y/file");
    REQUIRE(place.ok());
    CHECK(place->name == "file");
    std::ofstream(folder.path + "/file") << "";
    CHECK(make_beneath(*top, "file/z").error().code == ErrorCode::io);
}

TEST_CASE("a directory that others remove as soon as it is empty is made again", "[beneath]") {
    const Folder folder;
    const auto top = open_top(folder.path);
    REQUIRE(top.ok());
    // Number of times that the other thread may still remove it, and has removed it.
    std::atomic<int> left{0}, removed{0};
    std::jthread removing([&](const std::stop_token& over) {
        while (!over.stop_requested())
            if (left > 0 && ::unlinkat(top->number(), "a", AT_REMOVEDIR) == 0) --left, ++removed;
    });
    for (int round = 0; round < 20; ++round) {
        left = 3;
        const auto made = make_beneath(*top, "a/b/c");
        left = 0;
        CHECK(made.ok());
        CHECK(fs::is_directory(folder.path + "/a/b/c"));
        fs::remove_all(folder.path + "/a");
    }
    CHECK(removed > 0);
}

TEST_CASE("a directory that is exchanged for a link all the time never leads outside", "[beneath]") {
    const Folder folder, outside;
    fs::create_directories(folder.path + "/real");
    std::ofstream(folder.path + "/real/file") << "inside";
    std::ofstream(outside.path + "/file") << "outside";
    fs::create_directory_symlink(outside.path, folder.path + "/link");
    const auto top = open_top(folder.path);
    REQUIRE(top.ok());
    std::atomic<bool> over{false};
    std::thread exchanging([&] {
        const std::string real = folder.path + "/real", link = folder.path + "/link";
        while (!over) ::renameat2(AT_FDCWD, real.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
    });
    int inside = 0, refused = 0;
    for (int i = 0; i < 20'000; ++i) {
        const auto file = open_beneath_by(both[i % 2], *top, "real/file", O_RDONLY, 0);
        if (!file) {
            ++refused;
            continue;
        }
        if (content(*file) != "inside") FAIL("a file outside was opened");
        ++inside;
    }
    over = true;
    exchanging.join();
    CHECK(inside > 0);
    CHECK(refused > 0);
}

}  // namespace
}  // namespace rtrain::storage

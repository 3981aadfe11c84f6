// Short names for directories, as root and as another user.
#include "daemon/agent/disk/short_names.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "daemon/agent/disk/node_files.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

namespace fs = std::filesystem;

constexpr uid_t someone = 12'345;

// Runs the checks in a process of a user that is not root. Returns the number of the check that failed; 0 if none did.
int as_someone(const std::function<int()>& checks) {
    const pid_t child = ::fork();
    if (child == 0) {
        const bool other = ::geteuid() != 0 || (::setgid(someone) == 0 && ::setuid(someone) == 0);
        ::_exit(other ? checks() : 99);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

mode_t mode_of(const std::string& path) {
    struct stat facts{};
    return ::lstat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
}

// Returns a data directory of 100 characters that all users can write to.
std::string long_directory(const Folder& folder) {
    const std::string path = folder.path + "/" + std::string(100 - folder.path.size() - 1, 'd');
    REQUIRE(make_directory(path, 0777));
    REQUIRE(::chmod(folder.path.c_str(), 0777) == 0);
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    return path;
}

}  // namespace

TEST_CASE("a long path gets a link of at most 40 bytes, the same one again") {
    Folder folder;
    const std::string links = "/tmp/rtrain-test-" + std::to_string(::getpid());
    REQUIRE(make_directory(links, 0700));
    const ShortNames names(links);
    const std::string one = folder.path + "/" + std::string(80, 'a'), two = folder.path + "/" + std::string(80, 'b');
    const auto first = names.name_of(one);
    REQUIRE(first);
    CHECK(first->size() <= short_name_most);
    CHECK(fs::read_symlink(*first) == one);
    CHECK(*names.name_of(one) == *first);
    const std::string second = *names.name_of(two);
    CHECK(second != *first);

    names.remove(one);
    CHECK(*names.name_of(folder.path + "/" + std::string(80, 'c')) == *first);  // the number is free again
    names.remove_all_but({two});
    CHECK(fs::read_symlink(second) == two);
    CHECK_FALSE(fs::is_symlink(*first));
    fs::remove_all(links);
}

TEST_CASE("a short path is its own name, and without a directory a long one has none") {
    CHECK(*ShortNames().name_of("/var/lib/rtrain/node/scratch/17-1") == "/var/lib/rtrain/node/scratch/17-1");
    CHECK_FALSE(ShortNames().name_of("/" + std::string(40, 'x')).ok());
}

TEST_CASE("the short directory of a user is closed to others, cannot be guessed, and stays the same") {
    Folder folder;
    const std::string data = long_directory(folder);
    CHECK(as_someone([&] {
              const auto made = short_directory(data, for_links);
              if (!made || made->size() > for_links) return 1;
              if (mode_of(*made) != 0700) return 2;
              if (*short_directory(data, for_links) != *made) return 3;
              const std::string name = fs::path(*made).filename().string();
              if (!name.starts_with("rtrain-") || data.find(name) != std::string::npos) return 4;
              if (!ShortNames(*made).name_of(data + "/scratch").ok()) return 5;
              remove_short_directory(data);
              if (mode_of(*made) != 0) return 6;
              const auto again = short_directory(data, for_links);
              if (!again || *again == *made) return 7;
              remove_short_directory(data);
              return 0;
          }) == 0);
}

TEST_CASE("a directory that somebody else has put in the place of the short one is not used") {
    if (::geteuid() != 0) {
        WARN("skipped: it needs root to act as two users");
        return;
    }
    Folder folder;
    const std::string data = long_directory(folder), stranger = folder.path + "/stranger";
    REQUIRE(make_directory(stranger, 0777));
    REQUIRE(write_whole(data + "/short-directory", stranger, 0644, Durable::no));
    CHECK(as_someone([&] {
              const auto made = short_directory(data, for_links);
              if (!made || *made == stranger) return 1;
              remove_short_directory(data);
              return 0;
          }) == 0);
}

TEST_CASE("root's short directory lies where only root makes names, and others may pass through it") {
    if (::geteuid() != 0) {
        WARN("skipped: it needs root");
        return;
    }
    Folder folder;
    const auto made = short_directory(folder.path, for_links);
    REQUIRE(made);
    CHECK(made->starts_with("/run/rtrain-"));
    CHECK(mode_of(*made) == 0711);
    const std::string target = folder.path + "/" + std::string(60, 't');
    REQUIRE(make_directory(target, 0700));
    const auto name = ShortNames(*made).name_of(target);
    REQUIRE(name);
    CHECK(name->size() <= short_name_most);
    CHECK(as_someone([&] { return ::symlink("/etc", (*made + "/1").c_str()) == 0 ? 1 : 0; }) == 0);
    CHECK(as_someone([&] { return ::unlink(name->c_str()) == 0 ? 1 : 0; }) == 0);
    remove_short_directory(folder.path);
    CHECK(mode_of(*made) == 0);
}

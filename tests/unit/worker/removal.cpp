// A reported directory is removed by the rank that finds it unchanged. A directory that another rank has made since
// then stays.
#include "runtime/worker/removal.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;
namespace fs = std::filesystem;

namespace {

struct Folder {
    fs::path below;
    Folder() {
        std::string pattern = (fs::temp_directory_path() / "rtrain-removal-XXXXXX").string();
        below = ::mkdtemp(pattern.data());
        make();
    }
    ~Folder() { fs::remove_all(below); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    fs::path reported() const { return below / "reported"; }
    void make() const {
        fs::create_directories(reported() / "inner");
        std::ofstream(reported() / "inner" / "model") << "weights";
    }
    bool whole() const { return fs::exists(reported() / "inner" / "model"); }
    std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(below), fs::directory_iterator()); }
};

// Returns the result of `task` as the user nobody; -1 if the process cannot change its user.
template <class Task>
int as_nobody(const Task& task) {
    const passwd* person = ::getpwnam("nobody");
    const pid_t child = ::fork();
    if (child == 0) {
        const bool other = person != nullptr && ::setgid(person->pw_gid) == 0 && ::setuid(person->pw_uid) == 0;
        ::_exit(other ? task() : 255);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a reported directory is removed, whoever of its ranks comes first, and nothing is left beside it") {
    const Folder folder;
    ReportedDirectory first(folder.reported()), second(folder.reported().string() + "/");
    CHECK(first.remove().empty());
    CHECK(folder.entries() == 0);
    CHECK(second.remove().empty());
}

TEST_CASE("a directory that was made anew under the reported name stays") {
    const Folder folder;
    ReportedDirectory late(folder.reported());
    CHECK(ReportedDirectory(folder.reported()).remove().empty());
    folder.make();
    CHECK(late.remove().empty());
    CHECK(folder.whole());
    CHECK(folder.entries() == 1);
}

TEST_CASE("of two ranks that remove at once neither takes what the other has made anew") {
    const Folder folder;
    for (int round = 0; round < 500; ++round) {
        ReportedDirectory own(folder.reported()), others(folder.reported());
        std::string stays;
        std::thread other([&] { stays = others.remove(); });
        CHECK(own.remove().empty());
        folder.make();
        other.join();
        CHECK(stays.empty());
        REQUIRE(folder.whole());
        REQUIRE(folder.entries() == 1);
    }
}

TEST_CASE("while another rank looks and renames, nothing is renamed") {
    const Folder folder;
    ReportedDirectory late(folder.reported());
    const int others = ::open(folder.reported().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(::flock(others, LOCK_EX) == 0);
    CHECK(late.remove().find("stays") != std::string::npos);  // its lock was never released
    CHECK(folder.whole());
    ::close(others);
    CHECK(late.remove().empty());
    CHECK(folder.entries() == 0);
}

TEST_CASE("a link to the reported directory is no name of its own: both stay") {
    const Folder folder;
    fs::create_directory_symlink(folder.reported(), folder.below / "link");
    CHECK(ReportedDirectory(folder.below / "link").remove().find("link stays") != std::string::npos);
    CHECK(folder.whole());
    CHECK(fs::is_symlink(folder.below / "link"));
}

TEST_CASE("a directory that cannot be renamed keeps its files; one whose folders may not be written is removed") {
    const Folder folder;
    const fs::path closed = folder.below / "closed" / "reported";
    fs::create_directories(closed);
    std::ofstream(closed / "model") << "weights";
    fs::permissions(folder.reported() / "inner", fs::perms::owner_read | fs::perms::owner_exec);
    const int made = as_nobody([&] { return 0; });
    if (made < 0) {
        WARN("skipped: becoming another user needs root");
        return;
    }
    const passwd* person = ::getpwnam("nobody");
    for (const fs::path& own : {folder.below, folder.reported(), folder.reported() / "inner", closed})
        REQUIRE(::chown(own.c_str(), person->pw_uid, person->pw_gid) == 0);
    CHECK(as_nobody([&] {
              return ReportedDirectory(closed).remove().find("stays: it cannot be renamed") == std::string::npos ? 1
                                                                                                                 : 0;
          }) == 0);
    CHECK(fs::exists(closed / "model"));
    CHECK(as_nobody([&] { return ReportedDirectory(folder.reported()).remove().empty() ? 0 : 1; }) == 0);
    CHECK_FALSE(fs::exists(folder.reported()));
    CHECK(folder.entries() == 1);
}

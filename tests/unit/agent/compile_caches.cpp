// Caches of compiled code: their owners, and the entries that are removed.
#include "daemon/agent/preparation/compile_caches.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t a_day = 24LL * 3600 * 1000, at_day_100 = 100 * a_day, gibibyte = std::int64_t{1} << 30;

struct Interpreter {
    Folder folder;
    CompileEnvironment value{.token_user = "ana", .python = folder.path + "/bin/python3.11"};
    Interpreter() {
        for (const char* below :
             {"/bin", "/lib/python3.11/site-packages/torch", "/lib/python3.11/site-packages/triton"})
            REQUIRE(make_directory(folder.path + below, 0755));
        REQUIRE(write_whole(value.python, "an interpreter", 0755, Durable::no));
        torch("__version__ = '2.13.0'");
    }
    void torch(const std::string& version) {
        REQUIRE(
            write_whole(folder.path + "/lib/python3.11/site-packages/torch/version.py", version, 0644, Durable::no));
    }
    std::string entry() const { return cache_entry_of(value); }
};

}  // namespace

TEST_CASE("a user has one entry for each environment and each release of PyTorch and Triton") {
    Interpreter environment;
    const std::string first = environment.entry();
    CHECK(environment.entry() == first);
    environment.torch("__version__ = '2.14.0'");
    const std::string later = environment.entry();
    CHECK(later != first);
    REQUIRE(write_whole(environment.folder.path + "/lib/python3.11/site-packages/triton/__init__.py", "3", 0644,
                        Durable::no));
    CHECK(environment.entry() != later);
    environment.torch("__version__ = '2.13.0'");
    fs::remove(environment.folder.path + "/lib/python3.11/site-packages/triton/__init__.py");
    CHECK(environment.entry() == first);

    Interpreter other;
    CHECK(other.entry() != first);  // another folder
    environment.value.variables = {{"STEPS", "3"}};
    CHECK(environment.entry() == first);
    environment.value.variables["PYTHONPATH"] = "/opt/more";
    CHECK(environment.entry() != first);
}

TEST_CASE("users share no entry") {
    Interpreter environment;
    const std::string first = environment.entry();
    environment.value.token_user = "ben";
    const std::string of_ben = environment.entry();
    CHECK(of_ben != first);
    environment.value.user = {.uid = 1000, .gid = 1000, .name = "ben"};
    if (::geteuid() == 0) CHECK(environment.entry() != of_ben);
}

TEST_CASE("an entry is closed to others, and lies where its user makes no names") {
    Folder folder;
    const std::string rank = folder.path + "/attempts/1-1/rank-00000";
    REQUIRE(make_directory(rank, 0711));
    const auto files = open_cache(folder.path, "e1", {}, rank);
    REQUIRE(files);
    CHECK(*files == folder.path + "/caches/e1/files");
    struct stat seen{};
    REQUIRE(::lstat(files->c_str(), &seen) == 0);
    CHECK((seen.st_mode & 07777) == 0700);
    REQUIRE(::lstat((folder.path + "/caches/e1").c_str(), &seen) == 0);
    CHECK((seen.st_mode & 07777) == 0711);
}

TEST_CASE("entries without use for long go, and one that an attempt uses stays") {
    const std::vector<CacheFacts> caches{{.entry = "old", .used_wall_ms = at_day_100 - 31 * a_day},
                                         {.entry = "used", .used_wall_ms = at_day_100 - 31 * a_day, .in_use = true},
                                         {.entry = "new", .used_wall_ms = at_day_100 - 29 * a_day},
                                         {.entry = ".gone-other", .used_wall_ms = at_day_100}};
    CHECK(caches_to_remove(caches, at_day_100) == std::vector<std::string>{"old", ".gone-other"});
}

TEST_CASE("more bytes than a node keeps: the user with the most loses the least recently used") {
    std::vector<CacheFacts> caches{
        {.entry = "small", .owner = 1, .bytes = gibibyte, .used_wall_ms = at_day_100 - 9 * a_day},
        {.entry = "big-1", .owner = 2, .bytes = 3 * gibibyte, .used_wall_ms = at_day_100 - 2 * a_day},
        {.entry = "big-2", .owner = 2, .bytes = 3 * gibibyte, .used_wall_ms = at_day_100 - 3 * a_day},
        {.entry = "big-3", .owner = 2, .bytes = 3 * gibibyte, .used_wall_ms = at_day_100 - 4 * a_day}};
    CHECK(caches_to_remove(caches, at_day_100) == std::vector<std::string>{"big-3"});
    caches[3].in_use = true;
    CHECK(caches_to_remove(caches, at_day_100) == std::vector<std::string>{"big-2"});
    for (CacheFacts& cache : caches) cache.in_use = true;
    CHECK(caches_to_remove(caches, at_day_100).empty());
}

TEST_CASE("an entry that an attempt was given is in use as long as the attempt's directory is there") {
    Folder folder;
    const NodeFiles files{.data_dir = folder.path, .scratch_dir = folder.path + "/scratch"};
    const std::string rank = files.worker({.run = 1, .incarnation = 1}, 0);
    REQUIRE(make_directory(rank, 0711));
    REQUIRE(open_cache(folder.path, "e1", {}, rank));
    const std::int64_t later = std::int64_t{::time(nullptr)} * 1000 + 40 * a_day;
    bound_caches(files, later);
    CHECK(fs::exists(folder.path + "/caches/e1/files"));
    fs::remove_all(files.attempt({.run = 1, .incarnation = 1}));
    bound_caches(files, later);
    CHECK_FALSE(fs::exists(folder.path + "/caches/e1"));
    CHECK(fs::is_empty(folder.path + "/caches"));
}

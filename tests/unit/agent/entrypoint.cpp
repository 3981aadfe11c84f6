// Entrypoints written as one string.
#include "daemon/agent/workers/entrypoint.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/workers/user_rights.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain::agent;
using rtrain::Folder;

namespace {
std::string run_as(const std::string& text) { return without_shell_layer({"sh", "-c", text}, "/usr/bin:/bin").at(2); }
}  // namespace

TEST_CASE("a plain command replaces its shell, so that its death is its own") {
    CHECK(run_as("sleep 5") == "exec sleep 5");
    CHECK(run_as("sleep \"$SECONDS_LEFT\"") == "exec sleep \"$SECONDS_LEFT\"");
    CHECK(run_as("./train --lr 0.1") == "exec ./train --lr 0.1");
}

TEST_CASE("what needs a shell keeps it") {
    for (const std::string text :
         {"sleep 1; sleep 2", "sleep 1 && true", "sleep 1 | cat", "sleep 1 > out", "A=1 sleep 1", "exit 3",
          "no-such-program x", "", "   ", "$PROGRAM x", "(sleep 1)", "sleep 1 &"}) {
        CHECK(run_as(text) == text);
    }
    CHECK(without_shell_layer({"python", "-c", "x"}, "/usr/bin") == std::vector<std::string>{"python", "-c", "x"});
}

TEST_CASE("a program that the thread's user may not reach is none") {
    const passwd* entry = ::getpwnam("daemon");
    if (::geteuid() != 0 || entry == nullptr) {
        WARN("not tried: it needs root and a user 'daemon'");
        return;
    }
    const Folder folder;
    REQUIRE(::chmod(folder.path.c_str(), 0755) == 0);
    REQUIRE(make_directory(folder.path + "/private", 0700));
    REQUIRE(write_whole(folder.path + "/private/tool", "", 0755, Durable::no));
    std::filesystem::create_symlink("private/tool", folder.path + "/tool");
    CHECK(program_on_path("tool", folder.path) == folder.path + "/tool");
    const UserRights::Worn worn(UserRights({.uid = entry->pw_uid, .gid = entry->pw_gid, .name = "daemon"}));
    REQUIRE(worn.taken());
    CHECK(program_on_path("tool", folder.path).empty());
}

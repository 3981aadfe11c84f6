// Commands of the operator: their input, their end, and the owners of their files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "daemon/head/autoscale/command.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"
#include "tests/unit/head_fixture.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

CommandEnd run_script(const std::string& script, std::int64_t timeout_ms = 60'000, const std::string& input = "") {
    const std::atomic<bool> give_up{false};
    const Result<CommandEnd> end = run_command({.words = {"/bin/sh", "-c", script, "sh", "it's $(id) `id`; exit 9"},
                                                .environment = {"RTRAIN_AUTOSCALE=provision"},
                                                .input = input,
                                                .timeout_ms = timeout_ms},
                                               give_up);
    REQUIRE(end);
    return *end;
}

bool has_gone(pid_t pid) {
    return test::eventually([&] {
        const std::string stat = bytes_of_file("/proc/" + std::to_string(pid) + "/stat");
        const auto state = stat.rfind(") ");  // init reaps orphans at any time
        return ::kill(pid, 0) != 0 || (state != stat.npos && stat.compare(state + 2, 1, "Z") == 0);
    });
}

void write_program(const std::string& path, mode_t mode = 0755) {
    write_to_file(path, "#!/bin/sh\n");
    REQUIRE(::chmod(path.c_str(), mode) == 0);
}

}  // namespace

TEST_CASE("a command gets its words as they are, its input, and nothing of the head's") {
    ::setenv("RTRAIN_TOKEN", "rta1.secret", 1);
    const int open_here = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
    const CommandEnd end =
        run_script("printf '%s\\n' \"$1\"; cat; env; ls /proc/self/fd | wc -l; pwd; exit 3", 60'000, "demand\n");
    ::close(open_here);
    ::unsetenv("RTRAIN_TOKEN");
    CHECK(end.code == 3);
    CHECK(!end.timed_out);
    CHECK(end.output.starts_with("it's $(id) `id`; exit 9\ndemand\n"));
    CHECK(end.output.find("RTRAIN_AUTOSCALE=provision\n") != std::string::npos);
    CHECK(end.output.find("rta1") == std::string::npos);
    CHECK(end.output.ends_with("\n4\n/\n"));  // its own three descriptors, and that of the folder
}

TEST_CASE("at the timeout a command ends with all of its group, also with what ignores SIGTERM") {
    Folder folder;
    const std::string child = folder.path + "/child";
    const CommandEnd end =
        run_script("(trap '' TERM; while :; do sleep 1; done) & echo $! > " + child + "; wait", 3'000);
    CHECK(end.timed_out);
    CHECK(end.code == 128 + SIGTERM);
    CHECK(has_gone(std::stoi(bytes_of_file(child))));
}

TEST_CASE("a command that ignores SIGTERM itself is killed") {
    const CommandEnd end = run_script("trap '' TERM; while :; do sleep 0.1; done", 3'000);
    CHECK(end.timed_out);
    CHECK(end.code == 128 + SIGKILL);
}

TEST_CASE("who writes without end is ended all the same, and the end of it is kept") {
    const CommandEnd end = run_script("exec yes", 3'000);
    CHECK(end.timed_out);
    CHECK(!end.output.empty());
    CHECK(end.output.size() <= 256 << 10);
}

TEST_CASE("of a long output the last words are kept") {
    const CommandEnd end = run_script("yes | head -c 600000; echo no quota >&2; exit 1");
    CHECK(end.code == 1);
    CHECK(end.output.ends_with("no quota\n"));
}

TEST_CASE("a head that ends takes the command along") {
    Folder folder;
    const std::string ready = folder.path + "/ready";
    std::atomic<bool> give_up{false};
    std::thread ends([&] { give_up = test::eventually([&] { return std::filesystem::exists(ready); }); });
    const CommandWish wish{.words = {"/bin/sh", "-c", "echo > " + ready + "; exec sleep 1000"},
                           .environment = {},
                           .input = {},
                           .timeout_ms = 900'000};
    const Result<CommandEnd> end = run_command(wish, give_up);
    ends.join();
    REQUIRE(end);
    CHECK(!end->timed_out);
    CHECK(end->code == 128 + SIGTERM);
}

TEST_CASE("a program that is not there is an error") {
    const std::atomic<bool> give_up{false};
    CHECK(!run_command({.words = {"/nonexistent"}, .environment = {}, .input = {}, .timeout_ms = 1'000}, give_up));
}

TEST_CASE("only files that nobody else could have put there are ours") {
    Folder folder;
    write_program(folder.path + "/program");
    CHECK(only_ours(folder.path + "/program"));
    CHECK(!only_ours(folder.path + "/none"));
    write_program(folder.path + "/open", 0775);
    CHECK(!only_ours(folder.path + "/open"));
    std::filesystem::create_directories(folder.path + "/shared/ours");
    write_program(folder.path + "/shared/ours/program");
    CHECK(only_ours(folder.path + "/shared/ours/program"));
    REQUIRE(::chmod((folder.path + "/shared").c_str(), 0777) == 0);
    CHECK(!only_ours(folder.path + "/shared/ours/program"));
    std::filesystem::create_symlink("shared/../shared/ours/program", folder.path + "/link");  // the link's path counts
    CHECK(!only_ours(folder.path + "/link"));
    REQUIRE(::chmod((folder.path + "/shared").c_str(), 0755) == 0);
    CHECK(only_ours(folder.path + "/link"));
    std::filesystem::create_symlink("round", folder.path + "/round");
    CHECK(!only_ours(folder.path + "/round"));
    if (::geteuid() != 0) return;
    REQUIRE(::lchown((folder.path + "/link").c_str(), 1000, 1000) == 0);  // its owner could redirect it
    CHECK(!only_ours(folder.path + "/link"));
    REQUIRE(::chown((folder.path + "/program").c_str(), 1000, 1000) == 0);
    CHECK(!only_ours(folder.path + "/program"));
}

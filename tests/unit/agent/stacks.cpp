// Stacks of a rank: real processes get a signal, but only if they catch it.
#include "daemon/agent/workers/stacks.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "daemon/agent/disk/node_files.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/folder.hpp"

using namespace rtrain::agent;
using rtrain::Folder;

namespace {

constexpr auto patience = std::chrono::seconds(20);

// Runs `script` as rank 1 of an attempt, until the test ends.
struct RankProcess {
    Folder folder;
    StackTarget target{.attempt = "stacks-" + std::to_string(::getpid()),
                       .node = "n1",
                       .rank = 1,
                       .log = folder.path + "/err",
                       .why = "the test asks"};
    pid_t pid = 0;

    explicit RankProcess(const char* script) {
        const std::string attempt = "RTRAIN_ATTEMPT=" + target.attempt;
        const char* const environment[] = {"PATH=/usr/bin:/bin", attempt.c_str(), "RTRAIN_NODE=n1", "RANK=1", nullptr};
        const char* const words[] = {"bash", "-c", script, nullptr};
        const int log = ::open(target.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        pid = ::fork();
        if (pid == 0) {
            ::setpgid(0, 0);
            ::dup2(log, 2);
            ::execve("/bin/bash", const_cast<char**>(words), const_cast<char**>(environment));
            ::_exit(127);
        }
        ::setpgid(pid, pid);
        ::close(log);
    }
    ~RankProcess() {
        ::kill(-pid, SIGKILL);  // with its children
        ::waitpid(pid, nullptr, 0);
    }
    RankProcess(const RankProcess&) = delete;
    RankProcess& operator=(const RankProcess&) = delete;

    bool comes(const std::string& words) const {
        for (const auto end = std::chrono::steady_clock::now() + patience; std::chrono::steady_clock::now() < end;) {
            const auto text = read_whole(target.log);
            if (text && text->find(words) != std::string::npos) return true;
            std::this_thread::yield();
        }
        return false;
    }
    bool lives() const { return ::waitpid(pid, nullptr, WNOHANG) == 0; }
};

}  // namespace

TEST_CASE("a process of the rank that catches the signal is asked once, its children are not, and the log says why") {
    const RankProcess rank(
        "trap 'echo here I am >&2' 47; (trap 'echo a child >&2' 47; echo ready >&2; while read -t 1 x <> <(:); [ 1 ]; "
        "do "
        ":; done) & while read -t 1 x <> <(:); [ 1 ]; do :; done");
    REQUIRE(rank.comes("ready"));
    CHECK(request_stacks(rank.target) == 1);
    CHECK(rank.comes("rtrain: rank 1: the test asks; where it is:\n"));
    CHECK(rank.comes("here I am"));
    CHECK(read_whole(rank.target.log).value().find("a child") == std::string::npos);
    StackTarget other = rank.target;
    other.rank = 0;
    CHECK(request_stacks(other) == 0);
}

TEST_CASE("a program without a handler lives on, and the log says that it cannot tell") {
    const RankProcess rank("echo ready >&2; while :; do read -t 1 x <> <(:); done");
    REQUIRE(rank.comes("ready"));
    CHECK(request_stacks(rank.target) == 0);
    CHECK(rank.comes("no process of it is Python that imported rtrain.train"));
    CHECK(rank.lives());
}

// The owner of a rank's place, decided without sockets, and the data of /proc about real processes.
#include "daemon/agent/worker_link/rank_holders.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "daemon/agent/hardware/processes.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

constexpr AttemptKey earlier{.run = 7, .incarnation = 1}, later{.run = 7, .incarnation = 2};
constexpr ProcessId first{.pid = 100, .start = 5}, second{.pid = 101, .start = 6}, same_pid{.pid = 100, .start = 9};

struct Processes {
    std::set<std::int64_t> ended;  // their starts
    RankHolders::Runs runs() {
        return [this](const ProcessId& one) { return !ended.contains(static_cast<std::int64_t>(one.start)); };
    }
};

}  // namespace

TEST_CASE("a rank's place belongs to its first process, also while that one is not connected") {
    RankHolders holders;
    Processes processes;
    CHECK(holders.holder(earlier, 0, processes.runs()) == std::nullopt);
    CHECK(holders.claim(earlier, 0, first, processes.runs()) == first);
    CHECK(holders.claim(earlier, 0, second, processes.runs()) == first);
    CHECK(holders.claim(earlier, 0, first, processes.runs()) == first);
    CHECK(holders.claim(earlier, 1, second, processes.runs()) == second);
    CHECK(holders.claim(later, 0, second, processes.runs()) == second);
    CHECK(holders.holder(earlier, 0, processes.runs()) == first);
}

TEST_CASE("a place passes on when its process has ended, also to a process with the same number, or gives it up") {
    RankHolders holders;
    Processes processes;
    holders.claim(earlier, 0, first, processes.runs());
    holders.release(earlier, 0, second);  // it does not hold that place
    CHECK(holders.claim(earlier, 0, second, processes.runs()) == first);
    processes.ended.insert(5);
    CHECK(holders.holder(earlier, 0, processes.runs()) == std::nullopt);
    CHECK(holders.claim(earlier, 0, same_pid, processes.runs()) == same_pid);
    holders.release(earlier, 0, same_pid);
    CHECK(holders.claim(earlier, 0, second, processes.runs()) == second);
    holders.forget(earlier);
    CHECK(holders.holder(earlier, 0, processes.runs()) == std::nullopt);
}

TEST_CASE("the next agent knows who had the place: who comes first after its start does not take it") {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("rtrain-holder-" + std::to_string(::getpid()))).string();
    keep_holder(path, first);
    RankHolders holders;
    Processes processes;
    const auto kept = kept_holder(path);
    std::filesystem::remove(path);
    REQUIRE(kept == first);
    holders.restore(earlier, 0, *kept);
    CHECK(holders.claim(earlier, 0, second, processes.runs()) == first);
    CHECK(kept_holder(path) == std::nullopt);
}

TEST_CASE("a process runs until it has ended, whether or not its parent has looked") {
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const ProcessId process = process_of(child);
    CHECK(process.start != 0);
    CHECK(still_runs(process));
    CHECK_FALSE(still_runs({.pid = child, .start = process.start + 1}));
    ::kill(child, SIGKILL);
    siginfo_t ended{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
    CHECK_FALSE(still_runs(process));  // a zombie
    ::waitpid(child, nullptr, 0);
    CHECK_FALSE(still_runs(process));
    CHECK_FALSE(still_runs({}));
}

// Stories of memory that ran out, in the words of the kernel's log and its counters.
#include "daemon/agent/hardware/memory_kills.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

constexpr std::int64_t machine_kib = 62LL << 20;
constexpr AttemptKey killed_attempt{17, 1};
const std::string of_the_machine =
    "3,99,46868616,-;Out of memory: Killed process 4242 (python) total-vm:90000000kB, anon-rss:64801996kB, "
    "file-rss:6720kB, shmem-rss:0kB, UID:0 pgtables:256kB oom_score_adj:0\n";
const std::string of_a_group =
    "6,98,46868412,-;memory: usage 102400kB, limit 102400kB, failcnt 162\n"
    "3,99,46868616,-;Memory cgroup out of memory: Killed process 3066 (py (x) y) total-vm:323756kB, "
    "anon-rss:102016kB, file-rss:6720kB, shmem-rss:128kB, UID:0 pgtables:256kB oom_score_adj:0\n";

struct Kernel {
    std::uint64_t kills = 3;  // from before the agent's start
    std::optional<std::string> log;
    MemoryKills watch{
        {.log = [this] { return log; }, .kills = [this] { return kills; }, .total_kib = [] { return machine_kib; }}};
};

MemoryDeath killed(std::int64_t pid) {
    return {.attempt = killed_attempt, .pid = pid, .killed = true, .directly = true, .peak_kib = 61LL << 20};
}

}  // namespace

TEST_CASE("the kernel's log says whom it killed, how much that had, and of what") {
    CHECK(memory_kills_in(of_a_group + of_the_machine) ==
          std::vector<MemoryKill>{{.pid = 3066, .name = "py (x) y", .used_kib = 102144, .limit_kib = 102400},
                                  {.pid = 4242, .name = "python", .used_kib = 64801996}});
    CHECK(memory_kills_in("6,1,1,-;Killed process 7 (a) by a person\n3,1,1,-;Out of memory: Killed process ").empty());
    CHECK(memory_kills_in("").empty());
}

TEST_CASE("a worker that the log names was out of memory, whoever looks and when") {
    Kernel kernel;
    kernel.log = of_the_machine + of_a_group;  // from before this agent's start, so that the counter shows nothing
    CHECK(kernel.watch.explain(killed(4242)) == "61.8 of 62 GiB");
    CHECK(kernel.watch.explain(killed(3066)) == "99.8 of 100 MiB, the limit of its control group");
}

TEST_CASE("a worker that somebody else killed is not taken for one that was out of memory") {
    Kernel kernel;
    kernel.log = of_the_machine;
    ++kernel.kills;
    CHECK_FALSE(kernel.watch.explain(killed(7)));
    MemoryDeath unkilled = killed(4242);
    unkilled.killed = false;
    CHECK_FALSE(kernel.watch.explain(unkilled));
}

TEST_CASE("a shell whose child was killed tells of the newest kill") {
    Kernel kernel;
    kernel.log = of_the_machine;
    MemoryDeath shell = killed(7);
    shell.directly = false;
    CHECK_FALSE(kernel.watch.explain(shell));
    ++kernel.kills;
    CHECK(kernel.watch.explain(shell) == "61.8 of 62 GiB");
    CHECK_FALSE(kernel.watch.explain(shell));  // each kill explains one end
}

TEST_CASE("without the log the counter is believed, for one end each and for the last seconds only") {
    Kernel kernel;
    CHECK_FALSE(kernel.watch.explain(killed(7)));
    ++kernel.kills;
    CHECK(kernel.watch.explain(killed(7)) == "61 of 62 GiB");
    CHECK_FALSE(kernel.watch.explain(killed(8)));
    ++kernel.kills;
    for (const std::int64_t ms : {10'000, 20'000, 30'000}) kernel.watch.look(ms);
    CHECK_FALSE(kernel.watch.explain(killed(9)));
}

TEST_CASE("the counter of the attempt's own group goes before that of the machine") {
    Kernel kernel;
    ++kernel.kills;
    MemoryDeath death = killed(7);
    death.kills_in_group = 0;
    CHECK_FALSE(kernel.watch.explain(death));
    death.kills_in_group = 1;
    CHECK(kernel.watch.explain(death) == "61 of 62 GiB");
    CHECK_FALSE(kernel.watch.explain(death));
}

TEST_CASE("a worker that failed by itself hears that the kernel killed somebody meanwhile") {
    Kernel kernel;
    MemoryDeath death{.attempt = killed_attempt, .pid = 7};
    CHECK(kernel.watch.meanwhile(death) == "");
    ++kernel.kills;
    CHECK(kernel.watch.meanwhile(death) == "memory ran out meanwhile, and the kernel killed a process on this node");
    kernel.log = of_the_machine;
    death.kills_in_group = 1;
    CHECK(kernel.watch.meanwhile(death) ==
          "memory ran out meanwhile, and the kernel killed the process 4242 (python) of this run");
}

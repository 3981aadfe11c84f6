// Stories of where workers run: cgroups (a made-up tree, since few machines let tests make real ones), processors.
#include "daemon/agent/hardware/cgroup.hpp"

#include <fstream>

#include "daemon/agent/base/limits.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/hardware/affinity.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

// The files of a cgroup tree of version 2, as plain files.
struct Tree {
    Folder folder;
    std::string base = folder.path + "/system.slice/rtrain-agent.service";
    Tree() {
        REQUIRE(make_directory(base, 0755));
        write(base + "/cgroup.procs", "1\n");
        write(base + "/cgroup.controllers", "cpu memory pids\n");
        write(base + "/cgroup.subtree_control", "");
    }
    static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
    static std::string read(const std::string& path) {
        const auto text = read_whole(path);
        return text ? *text : "absent";
    }
};

}  // namespace

TEST_CASE("an attempt has a group of its own, which is killed as a whole and says whether memory ran out in it") {
    Tree tree;
    const auto groups = Cgroups::open(tree.base, "n1-c0ffee");
    REQUIRE(groups);
    CHECK(Tree::read(tree.base + "/cgroup.subtree_control") == "+memory");
    const auto place = groups->make(attempt_1);
    REQUIRE(place);
    CHECK(*place == tree.base + "/rtrain-n1-c0ffee-17-1");
    Tree::write(*place + "/pids.max", "max");
    CHECK(*groups->make(attempt_1) == *place);  // the next agent adopts it
    CHECK(Tree::read(*place + "/pids.max") == std::to_string(limits::tasks_of_attempt));
    CHECK_FALSE(groups->oom_kills(attempt_1));  // the kernel does not count kills, so the agent uses another source

    Tree::write(*place + "/memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n");
    CHECK(groups->oom_kills(attempt_1) == 1u);
    Tree::write(*place + "/cgroup.kill", "");
    Tree::write(*place + "/cgroup.procs", "");
    CHECK_FALSE(groups->kill(attempt_1));  // the group has no process
    CHECK(Tree::read(*place + "/cgroup.kill").empty());
    Tree::write(*place + "/cgroup.procs", "4194305\n");
    CHECK(groups->kill(attempt_1));
    CHECK(Tree::read(*place + "/cgroup.kill") == "1");
}

TEST_CASE("a group limits memory and weighs CPUs as its ranks asked for") {
    Tree tree;
    const auto groups = Cgroups::open(tree.base, "n1-c0ffee");
    REQUIRE(groups);
    CHECK(groups->counts_memory());
    const auto place = groups->make(attempt_1);
    REQUIRE(place);
    for (const char* name : {"cpu.weight", "memory.max", "memory.high"}) Tree::write(*place + "/" + name, "");
    Tree::write(*place + "/memory.max", "max\n");
    CHECK_FALSE(groups->limits_memory(attempt_1));

    const std::int64_t MiB = 1 << 20;
    CHECK(groups->limit(attempt_1, {.memory_bytes = 640 * MiB, .cpu_ticks = 25'000}));
    CHECK(Tree::read(*place + "/memory.max") == std::to_string(640 * MiB));
    CHECK(Tree::read(*place + "/memory.high") == std::to_string(630 * MiB));
    CHECK(Tree::read(*place + "/cpu.weight") == "250");
    CHECK(groups->limits_memory(attempt_1));

    CHECK(groups->limit(attempt_1, {.cpu_ticks = 0}));
    CHECK(Tree::read(*place + "/cpu.weight").starts_with("1"));  // the file of a test keeps old digits behind it
}

TEST_CASE("an attempt's memory is not limited without a memory controller") {
    Tree tree;
    Tree::write(tree.base + "/cgroup.controllers", "hugetlb pids\n");
    const auto groups = Cgroups::open(tree.base, "n1-c0ffee");
    REQUIRE(groups);
    CHECK_FALSE(groups->counts_memory());
    const Status limited = groups->limit(attempt_1, {.memory_bytes = 1 << 20});
    REQUIRE_FALSE(limited);
    CHECK(limited.error().message.find("memory.max") != std::string::npos);
    CHECK_FALSE(groups->limits_memory(attempt_1));
}

TEST_CASE("without version 2, or where it may not be written, there are no groups") {
    Folder folder;
    CHECK_FALSE(Cgroups::open("", "n1"));
    CHECK_FALSE(Cgroups::open(folder.path, "n1"));  // without cgroup.procs another file system is mounted there
    CHECK_FALSE(Cgroups::open(folder.path + "/absent", "n1"));
}

TEST_CASE("the group of this process is found in the words of the kernel, beside those of version 1") {
    Folder folder;
    const std::string mounts = folder.path + "/mounts", groups = folder.path + "/cgroup";
    Tree::write(mounts,
                "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
                "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
    Tree::write(groups, "4:memory:/elsewhere\n0::/system.slice/agent\n");
    CHECK(Cgroups::own_group(mounts, groups) == "/sys/fs/cgroup/unified/system.slice/agent");
    Tree::write(groups, "0::/\n");
    CHECK(Cgroups::own_group(mounts, groups) == "/sys/fs/cgroup/unified");
    Tree::write(mounts, "proc /proc proc rw 0 0\n");
    CHECK(Cgroups::own_group(mounts, groups).empty());
}

TEST_CASE("a worker runs near its GPUs; without GPUs it is not restricted unless the job asks for even parts") {
    Inventory node;
    node.cpus = {0, 1, 2, 3, 8, 9, 10, 11};
    node.devices.resize(3);
    node.devices[0].near_cpus = {0, 1, 2, 3};
    node.devices[1].near_cpus = {8, 9, 10, 11};
    const protocol::LaunchWorker one{.rank = 4, .local_rank = 0, .gpus = {1}}, both{.local_rank = 1, .gpus = {0, 1}},
        silent{.gpus = {0, 2}}, without{.local_rank = 1};

    CHECK(processor_list(processors_for("near_gpus", one, 2, node)) == "8-11");
    CHECK(processor_list(processors_for("near_gpus", both, 2, node)) == "0-3,8-11");
    CHECK(processors_for("near_gpus", silent, 2, node).empty());
    CHECK(processors_for("near_gpus", without, 2, node).empty());
    CHECK(processors_for("none", one, 2, node).empty());
    CHECK(processor_list(processors_for("even", without, 3, node)) == "2-3,8");
    CHECK(processors_for("even", without, 9, node).empty());
}

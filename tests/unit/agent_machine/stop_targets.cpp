// The choice of the processes of a rank that get SIGTERM.
#include "daemon/agent/machine/stop_targets.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::agent;

namespace {

using Pids = std::vector<std::int64_t>;

constexpr std::int64_t main_pid = 100, no_holder = 0;

struct Tree {
    ProcessTable table;
    // The start time of a process is its pid, so that it is later than its parent's.
    Tree& with(std::int64_t pid, std::int64_t parent, const std::string& program, bool catches = false) {
        table[pid] = {.id = {.pid = pid, .start = static_cast<std::uint64_t>(pid)},
                      .parent = parent,
                      .user = 1000,
                      .catches_sigterm = catches,
                      .program = program};
        return *this;
    }
    Pids targets(std::int64_t holder = no_holder) const { return stop_targets(table, main_pid, holder); }
};

constexpr bool catches = true;

}  // namespace

TEST_CASE("a program gets the signal itself, and its loader's processes do not") {
    for (const bool handler : {true, false}) {
        Tree tree;
        tree.with(100, 1, "python3.11", handler).with(101, 100, "python3.11", handler).with(102, 100, "python3.11");
        CHECK(tree.targets(100) == Pids{100});
        CHECK(tree.targets() == Pids{100});
    }
}

TEST_CASE("a shell passes the signal to the holder") {
    Tree tree;
    tree.with(100, 1, "dash").with(101, 100, "python3").with(102, 101, "python3").with(103, 100, "tee");
    CHECK(tree.targets(101) == Pids{101});
}

TEST_CASE("a program passes the signal to the holder that it has started") {
    Tree tree;
    tree.with(100, 1, "bash").with(101, 100, "python3").with(102, 101, "sh").with(103, 102, "python3");
    CHECK(tree.targets(103) == Pids{103});
    tree.with(101, 100, "python3", catches);
    CHECK(tree.targets(103) == Pids{101});  // like torchrun, which ends its processes itself
    tree.with(100, 1, "bash", catches);
    CHECK(tree.targets(103) == Pids{100});  // a trap
}

TEST_CASE("a shell without a holder passes the signal to its children") {
    Tree tree;
    tree.with(100, 1, "sh")
        .with(101, 100, "bash")
        .with(102, 101, "trainer")
        .with(103, 102, "loader")
        .with(104, 100, "tee");
    CHECK(tree.targets() == Pids{102, 104});
    tree.with(101, 100, "bash", catches);
    CHECK(tree.targets() == Pids{101, 104});
}

TEST_CASE("a shell without children gets the signal itself") {
    Tree tree;
    tree.with(100, 1, "sh").with(200, 1, "stranger");
    CHECK(tree.targets() == Pids{100});
    tree.with(101, 100, "python3").table.at(101).has_ended = true;
    CHECK(tree.targets() == Pids{100});
}

TEST_CASE("a holder elsewhere changes nothing") {
    Tree tree;
    tree.with(100, 1, "python3").with(101, 100, "python3").with(900, 1, "python3").with(901, 900, "python3");
    CHECK(tree.targets(901) == Pids{100});   // it does not descend from the rank's main process
    CHECK(tree.targets(5555) == Pids{100});  // it has ended
}

TEST_CASE("no process of another user is a target") {
    Tree tree;
    tree.with(100, 1, "sh").with(101, 100, "sudo").with(102, 101, "python3").with(103, 100, "sleep");
    tree.table.at(101).user = 0;
    CHECK(tree.targets(102) == Pids{103});
    tree.table.erase(103);
    CHECK(tree.targets(102) == Pids{100});
}

TEST_CASE("a number that was given again is no child of the rank") {
    Tree tree;
    tree.with(100, 1, "sh").with(101, 100, "python3").with(102, 101, "python3");
    tree.table.at(102).id.start = 50;  // it started before the process that now has its parent's pid
    CHECK(tree.targets(102) == Pids{101});
    tree.table.at(101).id.start = 50;
    CHECK(tree.targets(102) == Pids{100});
}

TEST_CASE("a circle or a very long line of processes ends the search") {
    Tree circle;
    circle.with(100, 101, "sh").with(101, 100, "sh").table.at(101).id.start = 100;
    CHECK(circle.targets(101).size() == 1);
    Tree line;
    for (std::int64_t pid = 100; pid < 400; ++pid) line.with(pid, pid - 1, "sh");
    CHECK(line.targets(399) == line.targets());
    CHECK(line.targets().size() == 1);
}

TEST_CASE("a rank that has ended has no target") { CHECK(Tree().with(7, 1, "sh").targets().empty()); }

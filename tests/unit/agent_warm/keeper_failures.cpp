// Templates, forks and left-behind processes that misbehave, and the workers beside them.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <utility>

#include "tests/unit/agent_warm/warm_story.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::warm_setup;

namespace {

// Returns a module that runs `text` at the n-th fork of the template's own process.
std::string at_fork(int n, const std::string& text) {
    return "count = 0\ndef forks():\n    global count\n    count += os.getpid() == self\n    if os.getpid() == self "
           "and count == " +
           std::to_string(n) + ":\n" + text + "    return fork()\nos.fork = forks\n";
}

// Writes the process's pid into a file when the process has started.
const char* const leaves_word =
    "def leave_word(name, pid):\n"
    "    with open(f'{folder}/{name}.new', 'w') as file: file.write(str(pid))\n"
    "    os.rename(f'{folder}/{name}.new', f'{folder}/{name}')\n";

// A process that the test traces. When it is killed, it stays in its exit until the test releases it, like a process
// that waits for a disk. A second SIGKILL that arrives before the process has stopped releases it too.
struct Traced {
    pid_t pid;
    bool held;
    explicit Traced(std::int64_t one)
        : pid(static_cast<pid_t>(one)), held(::ptrace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACEEXIT) == 0) {}
    // True once the process was killed and is held.
    bool is_stopped() const { return state_of(pid) == 't'; }
    void let_go() {
        if (!std::exchange(held, false)) return;
        ::kill(pid, SIGKILL);
        int status = 0;
        while (::waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
            ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
    }
    ~Traced() { let_go(); }
};

enum class Held { cannot_trace, not_stopped, stopped };

// Starts two workers of a keeper. Stops the first, whose child is held in its exit; then the second ends.
Held second_worker_ends_first() {
    WarmStory story;
    story.begin(story.spec());
    const auto first = story.worker(
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['setsid', 'sleep', '1000'])\n"
        "open('child', 'w').write(str(child.pid)); os.rename('child', 'there')\ntime.sleep(1000)\n");
    const auto second = story.worker("import os\nos.mkfifo('gate')\nopen('gate').read()\n", 1);
    story.fork(first);
    story.fork(second);
    REQUIRE(story.until([&] { return fs::exists(first.cwd + "/there") && fs::exists(second.cwd + "/gate"); }));
    Traced child(std::stol(text_of(first.cwd + "/there")));
    if (!child.held) return Held::cannot_trace;

    story.launcher->stop(attempt, 0, {});
    REQUIRE(story.until([&] { return state_of(story.started[0]) == '-'; }));
    REQUIRE(story.until([&] { return state_of(child.pid) != 'S'; }));  // The keeper has killed it.
    std::ofstream(second.cwd + "/gate") << "go\n";
    REQUIRE(story.until([&] { return story.ended.contains(1); }));
    CHECK(story.ended[1].success());
    if (!child.is_stopped()) return Held::not_stopped;
    CHECK_FALSE(story.ended.contains(0));
    REQUIRE(story.until_ended(2));
    CHECK(story.ended[0].signal == SIGTERM);
    const std::int64_t keeper = story.parent_of(story.ready["t"]);
    story.keepers.reset();
    CHECK(story.until([&] { return !alive(story.ready["t"]); }));
    CHECK(alive(keeper));  // It still has a child.
    child.let_go();
    CHECK(story.until([&] { return !alive(keeper); }));
    return Held::stopped;
}

}  // namespace

TEST_CASE("a process that the kernel cannot end holds up no other worker's exit, and its own not for long") {
    Held held = Held::not_stopped;
    for (int round = 0; round < 20 && held == Held::not_stopped; ++round) held = second_worker_ends_first();
    if (held == Held::cannot_trace) WARN("skipped: may not trace");
    CHECK(held != Held::not_stopped);
}

TEST_CASE("a template that is killed between orders is told as killed") {
    for (int round = 0; round < 10; ++round) {  // The socket ends before the process does.
        WarmStory story;
        story.begin(story.spec());
        ::kill(static_cast<pid_t>(story.ready["t"]), SIGKILL);
        REQUIRE(story.until([&] { return story.gone.contains("t"); }));
        CHECK(story.failed["t"] == "the template was killed by signal 9");
    }
}

TEST_CASE("a fork that the kernel cannot end holds up no other worker") {
    WarmStory story;
    story.begin_with(std::string(leaves_word) +
                     "def names_itself():\n    leave_word('fork', os.getpid())\n    signal.pause()\n"
                     "def setsid(before=os.setsid):\n    if os.path.exists(folder + '/holds'): names_itself()\n"
                     "    before()\nos.setsid = setsid\n");
    story.fork_waiting();
    std::ofstream(story.folder.path + "/holds") << "";
    story.fork(story.worker("print('never')\n", 1));
    Traced fork(story.pid_in("fork"));
    if (!fork.held) {
        WARN("skipped: may not trace");
        return;
    }
    REQUIRE(story.until([&] { return story.refused.contains(1); }));
    CHECK(story.refused[1] == "the fork did not become the worker: no word of it");
    story.check_waiting_ends_well();
}

TEST_CASE("a template that does not answer holds up no worker's exit") {
    WarmStory story;
    story.begin_with(at_fork(2, "        signal.pause()\n"));
    story.fork_waiting();
    story.fork(story.worker("print('never')\n", 1));
    REQUIRE(story.until([&] { return state_of(story.ready["t"]) == 'S'; }));
    story.check_waiting_ends_well();
    CHECK_FALSE(story.refused.contains(1));
    REQUIRE(story.until([&] { return story.refused.contains(1) && story.gone.contains("t"); }));
    CHECK(story.refused[1] == "the template did not answer");
    CHECK(story.failed["t"] == "the template did not answer");
}

TEST_CASE("a fork that fails before its program begins is refused: a plain start follows") {
    struct Failure {
        const char *module, *why;
    };
    const Failure failures[] = {
        {"class Broken:\n    def seed(self): raise ValueError('no seed')\nsys.modules['numpy.random'] = Broken()\n",
         "the fork did not become the worker: ValueError: no seed"},
        {"socket.socket.recv = lambda self, size: os._exit(3)\n", "the fork did not begin its program"},
        {"socket.socket.recv = lambda self, size: os.kill(os.getpid(), signal.SIGKILL)\n",
         "the fork did not begin its program"},
    };
    for (const Failure& failure : failures) {
        WarmStory story;
        story.begin_with(failure.module);
        const auto start = story.worker("print('never')\n");
        story.fork(start);
        REQUIRE(story.until([&] { return story.refused.contains(0) && story.gone.contains("t"); }));
        CHECK(story.refused[0] == failure.why);
        CHECK(story.failed["t"] == failure.why);
        CHECK_FALSE(story.started.contains(0));
        CHECK_FALSE(fs::exists(start.directory + "/started"));
        CHECK_FALSE(fs::exists(start.directory + "/exit"));
        story.launcher->start(start);
        REQUIRE(story.until([&] { return story.ended.contains(0); }));
        CHECK(story.ended[0].success());
        CHECK(text_of(start.out) == "never\n");
    }
}

TEST_CASE("a process that the template forks and does not announce is ended; workers and what they started are not") {
    const std::string own_score = text_of("/proc/self/oom_score_adj");
    for (const bool in_own_session : {false, true}) {
        if (in_own_session && own_score == "1000\n") {
            WARN("skipped: nothing tells a process in a session of its own from a worker's");
            continue;
        }
        WarmStory story;
        story.begin_with(
            std::string(leaves_word) +
            at_fork(2, "        if not fork():\n            pid = fork()\n            if pid: os._exit(0)\n" +
                           std::string(in_own_session ? "            os.setsid()\n" : "") +
                           "            leave_word('stray', os.getpid())\n            signal.pause()\n"
                           "        os.wait()\n"
                           "        while not os.path.exists(folder + '/stray'): pass\n"));
        const auto first = story.worker(
            "import os, subprocess, sys\n"
            "subprocess.run(['env', '-i', 'sh', '-c', 'setsid sleep 1000 & echo $! > daemon.new; mv daemon.new "
            "daemon'])\n"
            "os.mkfifo('gate')\nopen('gate').read()\nsys.exit(4)\n");
        story.fork(first);
        REQUIRE(story.until([&] { return fs::exists(first.cwd + "/gate"); }));
        const std::int64_t daemon = std::stol(text_of(first.cwd + "/daemon"));
        const auto second = story.worker("import os\nos.mkfifo('gate')\nopen('gate').read()\n", 1);
        story.fork(second);
        REQUIRE(story.until([&] { return fs::exists(second.cwd + "/gate"); }));

        const std::int64_t stray = story.pid_in("stray");
        CHECK(story.until([&] { return !alive(stray); }));
        CHECK(alive(story.ready["t"]));
        CHECK(alive(story.started[1]));
        CHECK(alive(daemon));
        std::ofstream(second.cwd + "/gate") << "go\n";
        REQUIRE(story.until([&] { return story.ended.contains(1); }));
        CHECK(alive(daemon));
        story.check_waiting_ends_well();
        CHECK(story.until([&] { return !alive(daemon); }));
        CHECK(story.refused.empty());
    }
}
